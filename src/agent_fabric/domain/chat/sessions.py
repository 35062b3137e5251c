"""A conversation with a person: sessions and their messages."""

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.domain.runs.effects import BEFORE_ANSWER, Outcome, mark_answer, warning

if TYPE_CHECKING:  # lists of sessions need no events
    from agent_fabric.domain.events import Event, RunCompleted, RunCreated

TITLE_CHARS: Final = 60
MAX_MESSAGE_CHARS: Final = 200_000
QUEUED: Final = "queued"
"""Status of a message that waits for the turns before it."""
RUNNING: Final = "running"
STOPPED: Final = "stopped"
"""Status of an answer that a person has ended: what was said of it is kept."""
COMPLETED: Final = "completed"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation with a person. Each of its turns is a run."""

    session_id: SessionId
    title: str
    has_unread: bool = False
    """A turn has ended, and its answer has not been read."""
    created_at: float
    updated_at: float
    """When it last got a message."""
    owner: str
    visibility: Visibility = Visibility.PRIVATE
    """Who sees it beside its owner, and its runs with it."""
    model_key: str = ""
    """The configured model that answers; empty: the default one."""
    pack: str = ""
    """The specialist; empty: one is chosen for each turn."""
    node: str = ""
    """The machine that its turns are about from now on; empty: none."""
    parent_session: SessionId | None = None
    """The session that it was forked from."""
    parent_message: str = ""
    """The last message of that session that it shares."""
    archived_at: float | None = None
    """When it was put away; None: it is listed."""
    project: str = ""
    """The folder of a project that its turns work in; empty: a folder of its own."""
    turn: RunId | None = None
    """The run that answers at the moment; None: nothing is under way."""
    last_run: RunId | None = None
    """The newest turn, which the next one goes on from."""
    queued: int = 0
    """Messages that wait for their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """Something that was said in a session."""

    message_id: str
    session_id: SessionId
    role: str
    """`user` or `assistant`."""
    content: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The run that it belongs to, and what became of it."""
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message that waits for the turns before it. It can be changed until its own begins."""

    message_id: str
    session_id: SessionId
    run_id: RunId
    """The run that it will be."""
    content: str
    asked: Mapping[str, Any]
    """Who sent it, and with which rights."""
    created_at: float
    problem: str = ""
    """Why it could not begin; it is not tried again before it was changed."""

    def as_message(self) -> ChatMessage:
        """Return it as one of the session's messages."""
        metadata: dict[str, Any] = {"run_id": self.run_id, "status": QUEUED}
        if self.problem:
            metadata["problem"] = self.problem
        return ChatMessage(
            message_id=self.message_id,
            session_id=self.session_id,
            role="user",
            content=self.content,
            metadata=metadata,
            created_at=self.created_at,
        )


def question_id(run_id: RunId) -> str:
    """Return the id of the message that a turn answers."""
    return f"{run_id}-1"


def answer_id(run_id: RunId) -> str:
    """Return the id of the message that a turn ends with."""
    return f"{run_id}-2"


def copy_message(message: ChatMessage, session_id: SessionId) -> ChatMessage:
    """Return a message as one of a session that was forked behind it."""
    original = message.message_id.rpartition(".")[2]
    return replace(message, message_id=f"{session_id}.{original}", session_id=session_id)


def title_from(text: str) -> str:
    """Return the title of a session that begins with a text."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1].rstrip()}…"


def message_from(run_id: RunId, created: "RunCreated", event: "Event") -> ChatMessage | None:
    """Return the message that an event of a turn makes, if it makes one. The table of messages has nothing else."""
    if not created.session:
        return None
    from agent_fabric.domain.events import RunCancelled, RunCompleted, RunCreated, RunFailed  # noqa: PLC0415 - see above

    match event.body:
        case RunCreated() as body:
            return _message(created, event, question_id(run_id), "user", body.prompt, {"run_id": run_id})
        case RunCompleted() as body:
            return _answer(run_id, created, event, body)
        case RunFailed() as body:
            error = {"code": body.code, "message": body.message, "hint": body.hint}
            metadata = {"run_id": run_id, "status": FAILED, "error": error}
            return _message(created, event, answer_id(run_id), "assistant", body.message, metadata)
        case RunCancelled() as body:
            metadata = {"run_id": run_id, "status": STOPPED, "by": body.by}
            return _message(created, event, answer_id(run_id), "assistant", body.said, metadata)
        case _:
            return None


def _answer(run_id: RunId, created: "RunCreated", event: "Event", body: "RunCompleted") -> ChatMessage:
    """Return what a turn has answered, below what contradicts it."""
    more = {key: value for key, value in body.payload.items() if key in _SHOWN}
    metadata = {"run_id": run_id, "status": COMPLETED, "specialist_ids": [*body.specialist_ids], **more}
    from agent_fabric.domain.runs.answer import answer_in  # noqa: PLC0415 - as above

    text = answer_in(body.payload)
    if body.effects is not None:
        if told := warning(body.effects, body.outcome):
            text = mark_answer(text, body.effects, body.outcome)
            metadata |= _shift_spans(metadata, len(told) + len(BEFORE_ANSWER))
        metadata |= {"outcome": str(body.outcome or Outcome.DONE), "effects": asdict(body.effects)}
    return _message(created, event, answer_id(run_id), "assistant", text, metadata)


def _shift_spans(metadata: Mapping[str, Any], by: int) -> dict[str, Any]:
    """Return where sentences stand once something stands above them."""
    sentences = metadata.get("sentences") or ()
    moved = [{**each, "start": each["start"] + by, "end": each["end"] + by} for each in sentences]
    return {"sentences": moved} if moved else {}


_SHOWN = ("sentences", "passages", "proposed_actions")
"""Keys of a payload that are metadata of its message."""


def _message(
    created: "RunCreated", event: "Event", message_id: str, role: str, content: str, metadata: Mapping[str, Any]
) -> ChatMessage:
    return ChatMessage(
        message_id=message_id,
        session_id=SessionId(created.session),
        role=role,
        content=content,
        metadata=metadata,
        created_at=event.ts,
    )
