"""Tokens of another identity provider, checked with the keys that it publishes (JWKS, RFC 7517) or a file holds."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import jwt

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import invalid_credentials
from agent_fabric.config.schema.identity import ProviderConfig
from agent_fabric.domain.identity.principals import AnyScope, Kind, Principal, known_scopes, widen
from agent_fabric.infrastructure.identity.jwt_tokens import checked_claims, header_of

ALGORITHMS: Final = ("RS256", "ES256")
FRESH_S: Final = 600.0
"""How long keys are used before they are fetched again."""
STALE_S: Final = 86_400.0
"""How long they are used if they cannot be fetched again: a provider that is down for an hour locks no one out."""
REFETCH_S: Final = 30.0
"""How soon a key that we do not know makes us ask again: anyone can invent one."""

_log = logging.getLogger(__name__)


class ProviderTokens:
    """ForeignTokens of one provider."""

    def __init__(self, config: ProviderConfig, fetch: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._config = config
        self._keys = KeySet(fetch, clock)

    def are_like(self, token: str) -> bool:
        return header_of(token).get("alg") in ALGORITHMS

    async def read(self, token: str) -> Principal:
        header = header_of(token)
        kid = header.get("kid")
        key = await self._keys.find(kid if isinstance(kid, str) else None, str(header.get("alg")))
        if key is None:
            raise invalid_credentials()
        claims = checked_claims(token, key, ALGORITHMS, issuer=self._config.issuer, audience=self._config.audience)
        scopes = widen(self._scopes(claims))
        return Principal(claims["sub"], Kind.EXTERNAL, scopes, expires_at=float(claims["exp"]))

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[AnyScope]:
        value = claims.get(self._config.scope_claim)
        said = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
        mapped = (self._config.scopes.get(each) for each in said if isinstance(each, str))
        return known_scopes((*self._config.default_scopes, *filter(None, mapped)))


class KeySet:
    """A provider's public keys, fetched when they are needed and not again too soon."""

    def __init__(self, fetch: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[jwt.PyJWK, ...] = ()
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._one_at_a_time = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Return the key that a token names; None if the provider has none such.

        A token that names none is checked with the only key of its kind, if there is only one.
        """
        if self._clock.monotonic() - self._fetched_at > FRESH_S:
            await self._refresh()
        found = self._find(kid, algorithm)
        if found is None and kid is not None:  # the provider may have changed its keys just now
            await self._refresh()
            found = self._find(kid, algorithm)
        return found

    def _find(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        fitting = [key for key in self._keys if key.algorithm_name == algorithm and (kid is None or key.key_id == kid)]
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self) -> None:
        asked_at = self._clock.monotonic()
        async with self._one_at_a_time:
            # A task that waited for another's fetch has what came of it.
            if self._tried_at >= asked_at or self._clock.monotonic() - self._tried_at < REFETCH_S:
                return
            try:
                self._keys = _keys_in(await self._fetch())
                self._fetched_at = self._clock.monotonic()
            except (OSError, ValueError, RecursionError) as problem:
                _log.warning("The keys of the identity provider cannot be fetched: %s", problem)
                if self._clock.monotonic() - self._fetched_at > STALE_S:
                    self._keys = ()
            finally:
                self._tried_at = self._clock.monotonic()


def _keys_in(document: bytes) -> tuple[jwt.PyJWK, ...]:
    """Return the keys that a document holds for checking signatures; others, also secret ones, are left out.

    Raises:
        ValueError: it is no set of keys.
    """
    match json.loads(document):
        case {"keys": [*entries]}:
            return tuple(key for entry in entries if isinstance(entry, dict) and (key := _key_in(entry)) is not None)
        case _:
            raise ValueError("what was found is no JSON object with a list 'keys'")


def _key_in(entry: Mapping[str, Any]) -> jwt.PyJWK | None:
    match entry:
        case {"kty": "RSA"}:
            algorithm = "RS256"
        case {"kty": "EC", "crv": "P-256"}:
            algorithm = "ES256"
        case _:
            return None
    if entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
        return None
    try:
        return jwt.PyJWK({name: value for name, value in entry.items() if name not in _PRIVATE}, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None


_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
"""Parts of a secret key, which have no place in what is published."""


MAX_BYTES: Final = 512 * 1024


def key_set_source(location: str, *, timeout_s: float) -> Callable[[], Awaitable[bytes]]:
    """Return what fetches the keys; it raises OSError when they cannot be had."""

    async def from_file() -> bytes:
        return await asyncio.to_thread(_read, Path(location))

    async def from_address() -> bytes:
        # Imported now: aiohttp takes a third of a second, which a server without a provider need not spend.
        from agent_fabric.infrastructure.web.sessions import fetch_small  # noqa: PLC0415

        return await fetch_small(location, timeout_s=timeout_s, max_bytes=MAX_BYTES)

    return from_file if location.startswith("/") else from_address


def _read(path: Path) -> bytes:
    if not path.is_file():  # to open a pipe would take for ever
        raise OSError(f"{path} is not a file")
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"{path} is larger than {MAX_BYTES} bytes")
    return data
