"""Finds credentials of tool servers with which a run could answer questions."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.config.secret_references import reference_in
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.accounts import KEY_PREFIX, ApiKey
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.observability.findings import HealthFinding, Level

_LOCAL_SOURCES: Final = frozenset({"env", "file"})
_KEY: Final = re.compile(rf"{KEY_PREFIX}([0-9a-f]{{12}})_")
_FIX: Final = "Give it a key without the scopes approvals and admin: `fabric keys create`."


@dataclass(frozen=True, slots=True)
class FindAnsweringKeys:
    """Use case: warn of keys in `env` and `headers` of tool servers that may answer questions, or change who may."""

    specialists: Mapping[str, SpecialistConfig]
    resolve: Resolve
    find_key: Callable[[str], Awaitable[ApiKey | None]]
    now: Callable[[], float]

    async def __call__(self) -> list[HealthFinding]:
        """Return a warning for each. Secrets on other machines are not looked up."""
        findings = []
        for setting, text in self._settings():
            value = await self._value(text)
            if "local_" in value and re.search(r"local_[\w-]{43}", value):
                findings.append(
                    _warning(f"`{setting}` holds the token of a fabric folder, which opens everything there")
                )
            for key_id in _KEY.findall(value):
                key = await self.find_key(key_id)
                if key is not None and key.is_live(self.now()) and key.scopes & {Scope.APPROVALS, Scope.ADMIN}:
                    findings.append(_warning(f"`{setting}` holds the API key {key.title}, which may answer approvals"))
        return findings

    def _settings(self) -> Iterator[tuple[str, str]]:
        for specialist, config in self.specialists.items():
            for server in config.mcp_servers:
                for name, text in {**server.env, **server.headers}.items():
                    yield f"specialists.{specialist}.mcp_servers.{server.name}: {name}", text

    async def _value(self, text: str) -> str:
        found = reference_in(text)
        if found is None or found.source not in _LOCAL_SOURCES:
            return text
        try:
            return await self.resolve(found.text)
        except ConfigError:
            return ""  # the server cannot start without it, and says so itself


def _warning(text: str) -> HealthFinding:
    return HealthFinding(about="tool servers", level=Level.WARN, text=f"{text}: a run could use it", fix=_FIX)
