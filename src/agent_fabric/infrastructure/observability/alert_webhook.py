"""Posts alerts to webhooks, signed so that the receiver can verify the sender."""

import hmac
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.http import HttpRequest
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard
from agent_fabric.infrastructure.web.requests import HttpRequests

TIMEOUT_S: Final = 10.0
SIGNATURE: Final = "X-Fabric-Signature"
_BUSY: Final = frozenset({408, 425, 429})


class AlertWebhook:
    """AlertPost over HTTP. Addresses are the operator's own choice, so they may be on a private network.

    With a secret, the header `X-Fabric-Signature: t=SECONDS,v1=HEX` is sent: HMAC-SHA256 over `SECONDS.BODY`.
    """

    def __init__(
        self, secrets: Mapping[str, str | None], resolve: Resolve, clock: Clock, *, setting: str = "alerts"
    ) -> None:
        self._secrets = secrets
        """For each address the reference to its secret."""
        self._resolve = resolve
        self._clock = clock
        hosts = [_host(address) for address in secrets]
        self._requests = HttpRequests(WebConfig(max_redirects=0), AddressGuard(hosts, setting=setting))

    async def post(self, address: str, message: Mapping[str, Any]) -> None:
        body = orjson.dumps(dict(message))
        headers = {"Content-Type": "application/json"}
        reference = self._secrets.get(address)
        if reference is not None:
            headers[SIGNATURE] = signature(await self._resolve(reference), int(self._clock.now()), body)
        request = HttpRequest(url=address, method="POST", headers=headers, body=body, max_bytes=1_000)
        answer = await self._requests.send(request, timeout_s=TIMEOUT_S)
        if answer.status < 300:
            return
        said = f"{_host(address)} answered {answer.status}"
        if answer.status >= 500 or answer.status in _BUSY:
            raise ConnectionError(said)
        raise ValueError(said)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._requests.aclose()


def signature(secret: str, at: int, body: bytes) -> str:
    """Return what proves that someone who knows the secret sent a body at this time."""
    return f"t={at},v1={hmac.digest(secret.encode(), b'%d.%s' % (at, body), 'sha256').hex()}"


def _host(address: str) -> str:
    parts = urlsplit(address)
    host = parts.hostname or ""
    return f"[{host}]:{parts.port}" if ":" in host and parts.port else f"{host}:{parts.port}" if parts.port else host
