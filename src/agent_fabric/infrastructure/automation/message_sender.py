"""Sends messages to subscribers, guarded as every request that someone else has chosen the address of."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agent_fabric.application.ports.automation import SendOutcome
from agent_fabric.application.ports.http import HttpError, HttpRequest
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard

if TYPE_CHECKING:
    from agent_fabric.infrastructure.web.requests import HttpRequests

TIMEOUT_S: Final = 15.0


class GuardedSender:
    """MessageSender that reaches private addresses only if the configuration lists them, and follows no redirect."""

    def __init__(self, allow_hosts: Sequence[str]) -> None:
        self._allow_hosts = list(allow_hosts)
        self._opened: HttpRequests | None = None

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> SendOutcome:
        request = HttpRequest(url=url, method="POST", headers=dict(headers), body=body, max_bytes=1_000)
        try:
            answer = await self._requests().send(request, timeout_s=TIMEOUT_S)
        except FabricError as problem:
            return SendOutcome(0, problem.message)
        except PermissionError:
            host = urlsplit(url).hostname or url
            return SendOutcome(
                0,
                f"{host} is on this machine or a private network. If it may be sent to, name it in the configuration: "
                f'web.allow_hosts: ["{host}"]',
            )
        except (HttpError, OSError, ValueError) as problem:  # whatever the other side or the way there does
            return SendOutcome(0, f"{type(problem).__name__}: {problem}")
        return SendOutcome(answer.status)

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()

    def _requests(self) -> "HttpRequests":
        if self._opened is None:
            from agent_fabric.infrastructure.web.requests import HttpRequests  # noqa: PLC0415 - most send nothing

            guard = AddressGuard(self._allow_hosts, setting="web.allow_hosts")
            self._opened = HttpRequests(WebConfig(max_redirects=0), guard)
        return self._opened
