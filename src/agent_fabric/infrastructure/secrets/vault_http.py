"""One question to a HashiCorp Vault, over its HTTP API."""

import asyncio
import json
import random
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import aiohttp

from agent_fabric.config.schema.secrets import VaultConfig
from agent_fabric.domain.errors import ConfigError, StoreUnavailable
from agent_fabric.domain.models.addresses import is_local_url
from agent_fabric.infrastructure.web.sessions import read_up_to, reason_of, tls_failure

TRIES: Final = 3
MAX_BYTES: Final = 2 * 2**20
"""Vault's own limit for a secret is half of it."""
MAX_WAIT_S: Final = 5.0
"""A server that asks for more patience than this is not waited for."""

_AGAIN: Final = frozenset((412, 429, 500, 502, 503, 504))
"""What may be different the next time; 412 is an Enterprise server that has not caught up yet."""
_FIRST_WAIT_S: Final = 0.2


class VaultAnswer(NamedTuple):
    """What the server said."""

    status: int
    body: dict[str, Any]
    """Empty if it was no JSON object."""

    @property
    def errors(self) -> str:
        """The server's own words for what is wrong."""
        said = self.body.get("errors")
        return "; ".join(str(each)[:300] for each in said) if isinstance(said, list) else ""


async def read_secret(vault: VaultConfig, path: str, token: str) -> VaultAnswer:
    """Ask for the newest version of a secret; what fails for the moment is tried again.

    Raises:
        StoreUnavailable: no one answers, or not in time.
        ConfigError: the certificates that are configured cannot be used.
    """
    url = f"{vault.url}/v1/{quote(vault.mount)}/data/{quote(path)}"
    headers = {"X-Vault-Token": token, "X-Vault-Request": "true", "Accept": "application/json"}
    if vault.namespace is not None:
        headers["X-Vault-Namespace"] = vault.namespace
    here = is_local_url(vault.url)
    # Secrets are asked for rarely, so connections are not kept: then no one has to remember to close them.
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=vault.timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=not here,
    ) as session:
        for attempt in range(1, TRIES):
            answer, wait_s = await _ask(session, url, headers, vault)
            if answer is not None and answer.status not in _AGAIN:
                return answer
            wait_s = wait_s or _FIRST_WAIT_S * 2**attempt * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries
            if wait_s > MAX_WAIT_S:
                break
            await asyncio.sleep(wait_s)
        answer, _ = await _ask(session, url, headers, vault, last=True)
    assert answer is not None
    return answer


async def _ask(
    session: aiohttp.ClientSession, url: str, headers: dict[str, str], vault: VaultConfig, *, last: bool = False
) -> tuple[VaultAnswer | None, float]:
    """Return the answer, None if there was none, and how long the server wants to be left alone."""
    try:
        # A redirect would carry the token to another server.
        async with session.get(url, headers=headers, ssl=_tls(vault), allow_redirects=False) as response:
            data, more = await read_up_to(response, MAX_BYTES)
            if more:
                raise StoreUnavailable(f"The vault at {vault.url} sent more than {MAX_BYTES} bytes")
            return VaultAnswer(response.status, _object(data)), _seconds(response.headers.get("retry-after", ""))
    except aiohttp.ClientConnectorSSLError as problem:
        raise StoreUnavailable(
            tls_failure(problem, vault.url),
            hint="Use a `secrets.vault.url` that begins with http://, or the right port.",
        ) from None
    except aiohttp.ClientConnectorCertificateError as problem:
        raise StoreUnavailable(
            f"The certificate of the vault at {vault.url} is not trusted: {reason_of(problem)}",
            hint="Name its authority with `secrets.vault.ca_file`, or with SSL_CERT_FILE.",
        ) from None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as problem:
        if last:
            raise StoreUnavailable(
                f"The vault at {vault.url} does not answer: {reason_of(problem)}",
                hint="Check `secrets.vault.url`, and that the server runs.",
            ) from None
        return None, 0.0


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _seconds(retry_after: str) -> float:
    return float(retry_after) if retry_after.isascii() and retry_after.isdecimal() else 0.0


def _tls(vault: VaultConfig) -> ssl.SSLContext | bool:
    if not vault.url.startswith("https:"):
        return True
    try:
        return ssl.create_default_context(cafile=vault.ca_file)
    except (OSError, ssl.SSLError) as problem:
        raise ConfigError(f"The certificates in {vault.ca_file} cannot be used: {problem}") from None
