"""Secrets in a HashiCorp Vault: the engine KV, version 2."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.config.schema.secrets import VaultConfig
from agent_fabric.domain.errors import ConfigError, FabricError, StoreUnavailable

if TYPE_CHECKING:
    from agent_fabric.infrastructure.secrets.vault_http import VaultAnswer


class VaultSecrets:
    """SecretSource over a vault. A name is a field of the configured path; `path#field` names both.

    An answer is kept for `cache_s`, so a secret that is changed in the vault is used after that time at the latest.
    """

    def __init__(self, config: VaultConfig, token: Callable[[str], Awaitable[str]], clock: Clock) -> None:
        """Take what gives the token for the reference to it: when the vault is first asked, and for each question."""
        self._config = config
        self._token = token
        self._clock = clock
        self._kept: dict[str, tuple[float, Mapping[str, Any]]] = {}
        self._asking = asyncio.Lock()

    async def get(self, name: str) -> str | None:
        path, field = self._path_and_field(name)
        value = (await self._fields(path)).get(field)
        match value:
            case None:
                return None
            case str():
                return value
            case bool() | int() | float():
                return json.dumps(value)
            case _:
                raise ConfigError(
                    f"{field!r} of {path!r} in the vault is neither text nor a number",
                    hint="Name one that is, or store it as text.",
                )

    def how_to_set(self, name: str) -> str:
        path, field = self._path_and_field(name)
        return f"Put it into the vault with: vault kv patch -mount={self._config.mount} {path} {field}=…"

    def _path_and_field(self, name: str) -> tuple[str, str]:
        path, mark, field = name.rpartition("#")
        return (path, field) if mark else (self._config.path, name)

    async def _fields(self, path: str) -> Mapping[str, Any]:
        async with self._asking:  # many who want the same ask once
            kept = self._kept.get(path)
            if kept is not None and self._clock.monotonic() - kept[0] < self._config.cache_s:
                return kept[1]
            fields = await self._ask(path)
            self._kept[path] = (self._clock.monotonic(), fields)
            return fields

    async def _ask(self, path: str) -> Mapping[str, Any]:
        from agent_fabric.infrastructure.secrets.vault_http import read_secret  # noqa: PLC0415 - aiohttp takes its time

        answer = await read_secret(self._config, path, await self._token(self._config.token))
        return _fields_of(answer, path, self._config)


def _fields_of(answer: "VaultAnswer", path: str, vault: VaultConfig) -> Mapping[str, Any]:
    """Return the fields of a secret; none if it is not there or was deleted."""
    said = f": {answer.errors}" if answer.errors else ""
    if answer.status == 200:
        data = answer.body.get("data")
        fields = data.get("data") if isinstance(data, dict) and "metadata" in data else None
        if isinstance(fields, dict):
            return fields
        raise StoreUnavailable(
            f"The vault at {vault.url} answered with something that is no secret of the engine KV, version 2",
            hint="Check `secrets.vault.mount`: version 1 of the engine, and others, are not understood.",
        )
    if answer.status == 404 and not answer.errors:
        return {}  # there is no such secret, or its newest version was deleted
    raise _refusal(answer.status, said, path, vault)


def _refusal(status: int, said: str, path: str, vault: VaultConfig) -> FabricError:
    asked = f"{vault.mount}/data/{path}"
    match status:
        case 400 | 404:
            return ConfigError(
                f"The vault at {vault.url} has no such place as {asked}{said}",
                hint="Check `secrets.vault.mount`, `path` and `namespace`.",
            )
        case 401 | 403:
            return ConfigError(
                f"The vault at {vault.url} does not let us read {asked}{said}",
                hint=f"Check that the token ({vault.token}) is valid, has not expired, and has a policy with "
                f'`path "{asked}" {{ capabilities = ["read"] }}`.',
            )
        case 503:
            return StoreUnavailable(
                f"The vault at {vault.url} is sealed or down for maintenance{said}",
                hint="Its operator can unseal it: vault operator unseal",
            )
        case 429:
            return StoreUnavailable(f"The vault at {vault.url} is asked too often{said}", hint="Try again later.")
        case _ if 300 <= status < 400:
            return ConfigError(
                f"The vault at {vault.url} sends us to another server, which is not followed: the token would go there",
                hint="Set `secrets.vault.url` to the address of the active server, or of the load balancer.",
            )
        case _:
            return StoreUnavailable(f"The vault at {vault.url} answered {status}{said}", hint="Look at its log.")
