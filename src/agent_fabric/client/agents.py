"""Agents at a server: see them, run them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.client.definitions import Definitions
from agent_fabric.client.wire import line_from
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.wire.results import result_from


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLine:
    """One line about an agent, or about a file that is meant to be one."""

    name: str
    version: str | None
    role: str | None
    description: str
    file: str
    """On the server's machine."""
    usable: bool
    problems: tuple[str, ...]
    """What is wrong with it."""


class Agents(Definitions):
    """The agents of a server."""

    kind, command, verb, listed = "agent", "agents", "run", ("agents", "folders")

    async def list(self) -> Sequence[AgentLine]:
        """Return every agent, also those that cannot be used."""
        return await self._get(lambda value: [line_from(AgentLine, each) for each in value["agents"]], self.base)

    async def run(self, name: str, inputs: Mapping[str, Any] | None = None) -> RunResult:
        """Run an agent; return its result when it has ended, or waits for a person.

        Raises:
            DefinitionNotFound: there is none of this name.
            InvalidInputs: the inputs do not fit what it takes.
        """
        return await self._post(result_from, self._path(name, "/run"), dict(inputs or {}), timeout_s=math.inf)
