"""Workflows at a server: see them, run them, tell their runs what has happened."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_fabric.client.transport import Resource, segment
from agent_fabric.client.wire import json_from, line_from, start_query, started_run
from agent_fabric.domain.errors import DefinitionNotFound, RunNotFound
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.wire.shape import Json, status_from

BASE = "/api/v1/workflows"


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


class Workflows(Resource):
    """The workflows of a server, and their runs. What they take and give differs, so results are open objects."""

    async def list(self) -> Sequence[WorkflowLine]:
        """Return every workflow, also those that cannot be used."""
        return await self._get(lambda value: [line_from(WorkflowLine, each) for each in value["workflows"]], BASE)

    async def everything(self) -> Json:
        """Return all that `fabric workflow list --json` prints."""
        return await self._get(json_from("workflows"), BASE)

    async def validate(self, text: str | None = None, *, file: str = "workflow.yaml", name: str | None = None) -> Json:
        """Return what is wrong with a workflow's text, or with the server's own: one of them, or all.

        `text` is what stands in a file; `file` is only how problems call it.

        Raises:
            DefinitionNotFound: there is none of this name.
        """
        wish = {"text": text, "file": file, "name": name}
        body = {key: value for key, value in wish.items() if value is not None}
        return await self._post(json_from("valid", "files", "problems"), f"{BASE}/validate", body)

    async def show(self, name: str) -> Json:
        """Return everything about a workflow: what it takes, what it gives, its definition.

        Raises:
            DefinitionNotFound: there is none of this name.
        """
        return await self._get(json_from(), _named(name))

    async def start(
        self,
        name: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        model_key: str | None = None,
        network_allowed: bool = True,
        encrypt: bool = False,
    ) -> RunId:
        """Start a workflow and do not wait for it.

        Raises:
            DefinitionNotFound: there is none of this name.
            InvalidInputs: the inputs do not fit what it takes.
        """
        query = start_query(model_key=model_key, network_allowed=network_allowed, encrypt=encrypt)
        return await self._post(started_run, f"{_named(name)}/execute", dict(inputs or {}), query)

    async def execute(self, name: str, inputs: Mapping[str, Any] | None = None) -> Json:
        """Run a workflow; return its result when it has ended, or waits for somebody: `_meta.status` shows which."""
        path = f"{_named(name)}/execute"
        return await self._post(json_from(), path, dict(inputs or {}), timeout_s=math.inf)

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


def _named(name: str) -> str:
    missing = DefinitionNotFound(f"There is no workflow {name!r}", hint="See them with `fabric workflow list`.")
    return f"{BASE}/{segment(name, missing)}"


def _of_run(run_id: str, what: str = "") -> str:
    missing = RunNotFound(f"There is no run {run_id!r}", hint="See all runs with `fabric logs list`.")
    return f"{BASE}/runs/{segment(run_id, missing)}{what}"
