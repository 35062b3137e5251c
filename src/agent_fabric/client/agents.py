"""Agents at a server: see them, run them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_fabric.client.transport import Resource, segment
from agent_fabric.client.wire import json_from, line_from, start_query, started_run
from agent_fabric.domain.errors import DefinitionNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.wire.results import result_from
from agent_fabric.wire.shape import Json

BASE = "/api/v1/agents"


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


class Agents(Resource):
    """The agents of a server."""

    async def list(self) -> Sequence[AgentLine]:
        """Return every agent, also those that cannot be used."""
        return await self._get(lambda value: [line_from(AgentLine, each) for each in value["agents"]], BASE)

    async def everything(self) -> Json:
        """Return all that `fabric agents list --json` prints."""
        return await self._get(json_from("agents", "folders"), BASE)

    async def validate(self, text: str | None = None, *, file: str = "agent.yaml") -> Json:
        """Return what is wrong with a file of an agent, or without a text with any of the server's own.

        `text` is what stands in it; `file` is only how problems call it.
        """
        body = {"file": file} if text is None else {"file": file, "text": text}
        return await self._post(json_from("valid", "files", "problems"), f"{BASE}/validate", body)

    async def start(
        self,
        name: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        model_key: str | None = None,
        network_allowed: bool = True,
        encrypt: bool = False,
    ) -> RunId:
        """Start an agent and do not wait for it; unlike with `run`, what fails is not tried again.

        Raises:
            DefinitionNotFound: there is none of this name.
            InvalidInputs: the inputs do not fit what it takes.
        """
        query = start_query(model_key=model_key, network_allowed=network_allowed, encrypt=encrypt)
        return await self._post(started_run, f"{_named(name)}/run", dict(inputs or {}), query)

    async def show(self, name: str) -> Json:
        """Return everything about an agent: what it takes, what it gives, what it may do.

        Raises:
            DefinitionNotFound: there is none of this name.
        """
        return await self._get(json_from(), _named(name))

    async def run(self, name: str, inputs: Mapping[str, Any] | None = None) -> RunResult:
        """Run an agent; return its result when it has ended, or waits for somebody.

        Raises:
            DefinitionNotFound: there is none of this name.
            InvalidInputs: the inputs do not fit what it takes.
        """
        return await self._post(result_from, f"{_named(name)}/run", dict(inputs or {}), timeout_s=math.inf)


def _named(name: str) -> str:
    missing = DefinitionNotFound(f"There is no agent {name!r}", hint="See them with `fabric agents list`.")
    return f"{BASE}/{segment(name, missing)}"
