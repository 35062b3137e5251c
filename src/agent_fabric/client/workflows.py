"""Workflows at a server: see them, run them, tell their runs what has happened."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.client.definitions import Definitions
from agent_fabric.client.transport import Named
from agent_fabric.client.wire import json_from, line_from, started_run
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.wire.shape import Json, status_from

_of_run = Named("/api/v1/workflows/runs", RunNotFound, "There is no run {!r}", "See all runs with `fabric logs list`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowLine:
    """One line about a workflow, or about a file that is meant to be one."""

    name: str
    version: str | None
    description: str
    file: str
    """On the server's machine."""
    usable: bool
    problems: tuple[str, ...]
    """What is wrong with it."""


class Workflows(Definitions):
    """The workflows of a server, and their runs. What they take and give differs, so results are open objects."""

    kind, command, verb, listed = "workflow", "workflow", "execute", ("workflows",)

    async def list(self) -> Sequence[WorkflowLine]:
        """Return every workflow, also those that cannot be used."""
        return await self._get(lambda value: [line_from(WorkflowLine, each) for each in value["workflows"]], self.base)

    async def validate(self, text: str | None = None, *, file: str = "", name: str | None = None) -> Json:
        """Return what is wrong with a workflow's text, or with the server's own: one of them, or all.

        `file` is only how problems call the text.

        Raises:
            DefinitionNotFound: there is none of this name.
        """
        return await self._validate(text=text, file=file or "workflow.yaml", name=name)

    async def execute(self, name: str, inputs: Mapping[str, Any] | None = None) -> Json:
        """Run a workflow; return its result when it has ended, or waits for a person: `_meta.status` shows which."""
        return await self._post(json_from(), self._path(name, "/execute"), dict(inputs or {}), timeout_s=math.inf)

    async def run(self, run_id: str) -> Json:
        """Return how a workflow's run stands: its result as far as there is one, and what it waits for.

        Raises:
            RunNotFound: there is no such run, or it is no workflow.
        """
        return await self._get(json_from(), _of_run(run_id))

    async def signal(self, run_id: str, name: str, data: Mapping[str, Any] | None = None) -> RunStatus:
        """Tell a workflow that something has happened; return where its run stands.

        Raises:
            RunNotFound: there is no such run, or it is no workflow.
            RunSettled: it has ended.
        """
        return await self._post(
            lambda value: status_from(value["status"]),
            _of_run(run_id, "/signal"),
            {"name": name, "data": dict(data or {})},
        )

    async def resume(
        self,
        run_id: str,
        *,
        from_step: str | None = None,
        current: bool = False,
        inputs: Mapping[str, Any] | None = None,
    ) -> RunId:
        """Resume a workflow; return the run that does, which is a new one if it had failed.

        With `current`, `inputs` are those that its file has since.

        Raises:
            RunNotFound: there is no such run, or it is no workflow.
        """
        wish: dict[str, Any] = {"current": current} | ({} if from_step is None else {"from": from_step})
        wish |= {"inputs": dict(inputs)} if inputs else {}
        return await self._post(started_run, _of_run(run_id, "/resume"), wish, {"wait": False})

    async def cancel(self, run_id: str, *, reason: str = "") -> Json:
        """End a workflow and the runs that work for it; return how it stands then."""
        return await self._post(json_from(), _of_run(run_id, "/cancel"), {"reason": reason})
