"""Follows up a run that has ended."""

from collections.abc import Container
from dataclasses import replace

from agent_fabric.application.ports.runs import RunReader, RunRepository, Workspaces
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.chat.conversation import Asked, Turn, turns_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import Forbidden, InvalidInputs, RunUndrivable, RunUnsettled
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.labelling import labels_handed_on
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Quoted, RunStatus, Task

_WHAT_TO_DO = {
    RunStatus.RUNNING: "Wait for its end: fabric logs show {0} --follow. Or end it: fabric cancel {0}.",
    RunStatus.WAITING: "Answer it first: fabric approvals list --run {0}. Or end it: fabric cancel {0}.",
    RunStatus.INTERRUPTED: "Resume it first: fabric resume {0}. Or end it: fabric cancel {0}.",
}


@dataclass(frozen=True, slots=True)
class ContinueRun:
    """Use case: let a task continue the conversation and the workspace of a run that has ended.

    The new run gets the labels of the earlier one. It is encrypted if that was, and private unless its owner says
    otherwise.
    """

    runs: RunRepository
    reader: RunReader
    workspaces: Workspaces
    models: Container[str]
    """Keys of the configured models."""

    async def __call__(self, run_id: RunId, task: Task, *, keep_model: bool = True) -> Task:
        """Return the task; what it does not say is as in the earlier run. Who asks must be allowed to see that run.

        Raises:
            RunNotFound: there is no such run.
            RunUnsettled: it has not ended.
            RunUndrivable: it is a workflow or works for one, or its workspace is gone.
            Forbidden: it worked in a project folder of another owner.
            InvalidInputs: it is a private run of another owner, and the task is not to be private.
        """
        events = await self.runs.read(run_id)
        state, created = await fold_log(run_id, events), events[0].body
        if not isinstance(created, RunCreated) or state.task is None:
            raise RunUndrivable(f"The start of run {run_id} cannot be read", hint=f"See: fabric verify {run_id}")
        before = state.task
        self._require_continuable(run_id, state, await self.reader.status(run_id))
        project = created.project and created.workspace != self.workspaces.workspace(run_id)
        if project and (before.owner != task.owner or task.started_by):
            raise Forbidden(
                f"Run {run_id} worked in a project folder of {before.owner}",
                hint="Only its owner can follow it up, not a run.",
            )
        if not self.workspaces.usable(created.workspace):
            raise RunUndrivable(
                f"The workspace of run {run_id} is gone: {created.workspace}", hint="Start a new run instead."
            )
        private = created.visibility is Visibility.PRIVATE
        if private and task.visibility is Visibility.TEAM and before.owner != task.owner:
            raise InvalidInputs(f"Run {run_id} is private, and so is what follows it", hint="Leave out the visibility.")
        asked = Asked(task.prompt, (*turns_of(before.prompt), Turn("assistant", _answer(state))))
        chosen = task.specialist_ids
        return replace(
            task,
            prompt=asked.prompt,
            specialist_ids=chosen or before.specialist_ids or tuple(state.specialist_ids),
            agent=task.agent if chosen else before.agent,
            node=task.node or before.node,
            model_key=before.model_key if keep_model and before.model_key in self.models else task.model_key,
            network_allowed=task.network_allowed and before.network_allowed,
            outside_allowed=task.outside_allowed and before.outside_allowed,
            workspace=created.workspace,
            project=project,
            conversation=before.conversation or run_id,
            continues=run_id,
            quotes=quoted_labels(run_id, labels_handed_on(state), before.owner, task),
            visibility=task.visibility or (Visibility.PRIVATE if private else None),
            encrypted=task.encrypted or created.encrypted,
        )

    @staticmethod
    def _require_continuable(run_id: RunId, state: RunState, status: RunStatus) -> None:
        if not state.status.settled:
            standing = RunStatus.RUNNING if status.settled else status
            raise RunUnsettled(f"Run {run_id} has not ended: {standing}", hint=_WHAT_TO_DO[standing].format(run_id))
        if state.workflow is not None:
            again = f"fabric workflow resume {run_id} --from STEP"
            raise RunUndrivable(f"Run {run_id} is a workflow", hint=f"Do steps of it again with: {again}")
        if state.task is not None and state.task.parent is not None:
            raise RunUndrivable(
                f"Run {run_id} works for run {state.task.parent.run_id}", hint="Start a new run with its results."
            )


def _answer(state: RunState) -> str:
    match state.status:
        case RunStatus.COMPLETED:
            return answer_in(state.payload or {})
        case RunStatus.FAILED:
            return f"(failed: {state.error.message if state.error is not None else 'no reason is known'})"
        case _:
            return "(cancelled)"


def quoted_labels(run_id: RunId, left: Quoted, owner: str, task: Task) -> Quoted:
    """Return the labels of a task that goes on from someone's run. The words of another owner are strangers' text."""
    own = owner == task.owner
    said = Quoted(own_words=task.prompt) if task.quotes is None else task.quotes
    words = (said.own_words, left.own_words if own else "")
    return replace(
        left,
        own_words="\n".join(filter(None, words)),
        untrusted=(*left.untrusted, *said.untrusted, *(() if own else (f"run {run_id} of {owner}",))),
        private=(*left.private, *said.private),
        addresses=(*left.addresses, *said.addresses),
    )
