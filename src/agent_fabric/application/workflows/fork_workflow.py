"""Begins a workflow anew with what an earlier run of it has done already."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_fabric.application.ports.runs import RunRepository, Workspaces
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunSettled
from agent_fabric.domain.events import Body, RunCreated
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.labelling import addresses_handed_on
from agent_fabric.domain.runs.task import FrozenWorkflow, Task
from agent_fabric.domain.secrets.references import defuse
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.domain.workflows.fork import results_to_keep


@dataclass(frozen=True, slots=True)
class Forked:
    """A run that is to be created; `ExecuteTask` does it."""

    task: Task
    then: Sequence[tuple[LaneId, Body]]
    """What it begins with."""
    copy_of: str
    """The workspace whose files it begins with; empty: it works in the same project folder."""


@dataclass(frozen=True, slots=True)
class ForkWorkflow:
    """Use case: make a new run of the same definition and inputs that keeps what succeeded in an earlier one."""

    runs: RunRepository
    workspaces: Workspaces
    current: Callable[[FrozenWorkflow, Task], Task] | None = None
    """Gives the task to carry out a workflow as its file says by now; None: that is not wanted."""

    async def __call__(self, run_id: RunId, *, from_step: str = "") -> Forked:
        """Return the new run; with `from_step`, that step and everything behind it is done again.

        Where the file counts, and not what the earlier run was given, so are steps that have changed since.

        Raises:
            RunNotFound: there is no such run.
            RunSettled: it is not a workflow, or has succeeded, so that nothing is left to be done.
            InvalidInputs: there is no such step, or the inputs do not fit any more.
            WorkflowInvalid, DefinitionNotFound: the file as it is now cannot be used.
        """
        events = await self.runs.read(run_id)
        state, created = await fold_log(run_id, events), events[0].body
        if state.workflow is None or state.task is None or not isinstance(created, RunCreated):
            raise RunSettled(f"Run {run_id} is not a workflow", hint="See `fabric logs list`.")
        done = state.status.settled and state.error is None and not state.workflow.failed
        if done and not from_step and self.current is None:
            raise RunSettled(
                f"Run {run_id} has succeeded: nothing is left to be done",
                hint="Do a part of it again with --from STEP.",
            )
        frozen = state.task.workflow
        assert frozen is not None
        task, now = state.task, None
        if self.current is not None:
            task = self.current(frozen, task)
            assert task.workflow is not None
            frozen, now = task.workflow, definition_from(task.workflow.definition)
        kept = results_to_keep(state.workflow, from_step, now=now)
        if not state.workflow.secret_names:  # so nothing was kept from naming one, and the file may use some by now
            kept = [(lane, replace(body, outputs=defuse(body.outputs))) for lane, body in kept]
        own = created.workspace == self.workspaces.workspace(run_id)
        task = replace(
            task,
            workspace="" if own else created.workspace,
            workflow=replace(
                frozen,
                forked_from=run_id,
                untrusted=tuple(state.untrusted),
                private=tuple(state.private),
                addresses=addresses_handed_on(state, (frozen.inputs, [body.outputs for _, body in kept])),
            ),
            parent=None,
        )
        return Forked(task, kept, created.workspace if own else "")
