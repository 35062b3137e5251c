"""What a turn of a session leaves to the one that follows it."""

from dataclasses import dataclass

from agent_fabric.domain.chat.history import history_after
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.models.messages import Message
from agent_fabric.domain.packs.recruitment import ASSISTANT
from agent_fabric.domain.runs.labelling import labels_handed_on
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import Quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """The conversation and the labels of a session as its newest turn has left them; taken from that turn's log."""

    run_id: RunId
    """The turn."""
    events: int
    """How many events its log had. With one more, this is not its end."""
    session: str
    owner: str
    history: tuple[Message, ...]
    """What was said and done, up to its end."""
    labels: Quoted
    """What its owner wrote, and the labels of what it has read."""
    specialist_ids: tuple[SpecialistId, ...] = ()
    """Who goes on with the conversation; empty: its words choose."""
    workspace: str = ""
    project: bool = False
    """Whether the workspace is a project folder of its owner."""
    encrypted: bool = False


def context_after(state: RunState) -> TurnContext:
    """Return what a turn that has ended leaves."""
    task = state.task
    assert task is not None
    return TurnContext(
        run_id=state.run_id,
        events=state.next_seq,
        session=task.session,
        owner=task.owner,
        history=history_after(state),
        labels=labels_handed_on(state),
        specialist_ids=task.specialist_ids or _whom_to_stay_with(state),
        workspace=state.workspace,
        project=state.project,
        encrypted=task.encrypted,
    )


def _whom_to_stay_with(state: RunState) -> tuple[SpecialistId, ...]:
    """Return who goes on with a conversation; none after the assistant: then its words choose again."""
    who = tuple(state.specialist_ids)
    return () if who == (ASSISTANT,) else who
