"""Tells a workflow that something has happened."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.runs import SIGNAL, RunRepository
from agent_fabric.domain.errors import RunSettled
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.secrets import defused


@dataclass(frozen=True, slots=True)
class SignalWorkflow:
    """Use case: send a signal to a workflow. It is kept until a step waits for it."""

    runs: RunRepository

    async def __call__(self, run_id: RunId, name: str, data: Mapping[str, Any], *, by: str) -> None:
        """Put the signal into the run's inbox.

        Raises:
            RunNotFound: there is no such run.
            RunSettled: it has ended, or is no workflow, so that nothing will ever wait for the signal.
        """
        state = fold(run_id, await self.runs.read(run_id))
        if state.workflow is None:
            raise RunSettled(
                f"Run {run_id} is not a workflow, so it waits for no signal", hint="See `fabric logs list`."
            )
        if state.status.settled:
            raise RunSettled(
                f"Run {run_id} has ended ({state.status}), so it waits for no signal",
                hint=f"See how: fabric logs show {run_id}",
            )
        await self.runs.post(run_id, SIGNAL, {"name": name, "data": defused(data), "by": by})
