"""Tells a workflow that something has happened."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.application.ports.runs import SIGNAL, RunRepository
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.parameters import unusable_numbers
from agent_fabric.domain.definitions.problems import did_you_mean
from agent_fabric.domain.errors import InvalidInputs, RunSettled
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.secrets.references import defuse
from agent_fabric.domain.workflows.definition import BuiltIn, WorkflowDefinition


@dataclass(frozen=True, slots=True)
class SignalWorkflow:
    """Use case: send a signal to a workflow. It is kept until a step waits for it."""

    runs: RunRepository

    async def __call__(self, run_id: RunId, name: str, data: Mapping[str, Any], *, by: str) -> None:
        """Put the signal into the run's inbox.

        Raises:
            RunNotFound: there is no such run.
            RunSettled: it has ended, or is no workflow, so that nothing will ever wait for the signal.
            InvalidInputs: none of its steps ever waits for a signal of this name, or the data holds a number with
                which nothing can be computed.
        """
        state = await fold_log(run_id, await self.runs.read(run_id))
        if state.workflow is None:
            raise RunSettled(
                f"Run {run_id} is not a workflow, so it waits for no signal", hint="See `fabric logs list`."
            )
        if state.status.settled:
            raise RunSettled(
                f"Run {run_id} has ended ({state.status}), so it waits for no signal",
                hint=f"See how: fabric logs show {run_id}",
            )
        _require_waiting_step(state.workflow.definition, name)
        for problem in unusable_numbers(data, "The data"):
            raise InvalidInputs(problem, hint="Give it as text.")
        await self.runs.post(run_id, SIGNAL, {"name": name, "data": defuse(data), "by": by})


def _require_waiting_step(definition: WorkflowDefinition, name: str) -> None:
    waiting = (step for step in definition.all_steps() if step.action == BuiltIn.WAIT and "event" in step.inputs)
    waits = [str(step.inputs["event"]) for step in waiting]
    if name in waits or any("{{" in each for each in waits):  # a name that is computed can be any
        return
    raise InvalidInputs(
        f"No step of the workflow {definition.name!r} waits for a signal {name!r}",
        hint=did_you_mean(
            name,
            waits,
            otherwise=f"It waits for {', '.join(dict.fromkeys(waits))}."
            if waits
            else "None of its steps waits for a signal.",
        ),
    )
