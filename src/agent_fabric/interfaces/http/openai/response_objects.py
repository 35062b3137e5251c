"""A run as a response, in the shape of OpenAI's Responses API."""

import time
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError

from agent_fabric.domain.chat.conversation import ROLES, USER, Asked, Turn
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.openai.answers import Told
from agent_fabric.interfaces.http.openai.schemas import (
    OWN_TOOLS,
    Content,
    Metadata,
    Only,
    RunNote,
    Shown,
    StreamOptions,
    Taken,
    asks_for_something,
    text_of,
)


def _message(item: Any) -> Any:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if isinstance(kind, str) and kind != "message":
        raise PydanticCustomError(
            "unsupported_content", "only messages are supported, not {kind}", {"kind": repr(kind[:100])}
        )
    return item


class InputMessage(Taken):
    """One message of a conversation."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content

    @property
    def turn(self) -> Turn:
        """The same, as the conversation knows it."""
        return Turn(ROLES[self.role], text_of(self.content))


Item = Annotated[InputMessage, BeforeValidator(_message)]
Input = str | Annotated[list[Item], Field(min_length=1, max_length=10_000)]


def _turns(given: Input) -> list[Turn]:
    return [Turn(USER, given)] if isinstance(given, str) else [item.turn for item in given]


def _asking(given: Input) -> Input:
    asks_for_something(_turns(given))
    return given


class TextOptions(Taken):
    """How the answer is written."""

    format: Annotated[
        Any, Only((None, {"type": "text"}), "an answer is text; an agent with declared outputs answers with JSON")
    ] = None


class ResponseRequest(
    Taken, json_schema_extra={"examples": [{"model": "pack/engineering", "input": "Write hello.py, and run it."}]}
):
    """A conversation whose last word is the task. Parameters that are not listed are taken and left aside."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    """Who does it: see `GET /v1/models`."""
    input: Annotated[Input, AfterValidator(_asking)]
    """The task, or a conversation in which the newest message of the role `user` is the task."""
    instructions: str | None = None
    """Given along as background."""
    previous_response_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The response that this conversation continues from."""
    stream: bool | None = None
    """Whether to send the answer as Server-Sent Events."""
    stream_options: StreamOptions | None = None
    metadata: Metadata = None
    background: bool | None = None
    """Whether to answer at once; `GET /v1/responses/{response_id}` shows how it stands."""
    text: TextOptions | None = None
    tools: Annotated[Any, Only((None, []), OWN_TOOLS)] = None
    tool_choice: Annotated[Any, Only((None, "none", "auto"), OWN_TOOLS)] = None
    conversation: Annotated[Any, Only((None,), "use previous_response_id, or send the conversation as input")] = None
    prompt: Annotated[Any, Only((None,), "there are no stored prompts: send the task as input")] = None

    @property
    def visibility(self) -> str | None:
        """Who is to see the run beside its owner; None: not said."""
        return None if self.metadata is None else self.metadata.visibility

    def asked(self, before: list[Turn]) -> Asked:
        """Return what is to be done, after what was said before."""
        notes = [Turn(ROLES["system"], self.instructions)] if self.instructions else []
        return asks_for_something([*before, *notes, *_turns(self.input)])


class OutputText(Shown):
    """What was said."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]


class OutputMessage(Shown):
    """The one message of a response."""

    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: str
    content: list[OutputText]


class ResponseProblem(Shown):
    """Why a run failed."""

    code: str
    message: str


class ResponseUsage(Shown):
    """Tokens of all model answers of the run together."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class ResponseObject(Shown):
    """A run, as a response."""

    id: str
    """`resp_` and the id of the run."""
    object: Literal["response"]
    created_at: float
    status: Literal["completed", "failed", "in_progress", "cancelled", "incomplete"]
    """`incomplete` means that an answer or a signal is needed first: see `incomplete_details` and the answer."""
    model: str
    output: list[OutputMessage]
    error: ResponseProblem | None
    usage: ResponseUsage | None
    fabric: RunNote


PREFIX = "resp_"
_STATUSES = {
    RunStatus.RUNNING: "in_progress",
    RunStatus.WAITING: "incomplete",
    RunStatus.INTERRUPTED: "incomplete",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
"""Clients that poll stop at `incomplete`: without a person, nothing would change."""
_INCOMPLETE = {RunStatus.WAITING: "waiting_for_person", RunStatus.INTERRUPTED: "interrupted"}


@dataclass(frozen=True, slots=True)
class ResponseState:
    """A run as it stands."""

    run_id: RunId
    model: str
    status: RunStatus
    created_at: float = 0.0
    """0: now."""
    previous: str | None = None
    told: Told | None = None
    """What came of it, if anything did."""

    def become(self, told: Told) -> Self:
        """Return the same with what has come of it; the run may be another attempt."""
        return replace(self, told=told, status=told.result.status, run_id=told.result.run_id)


def response_object(standing: ResponseState) -> dict[str, Any]:
    """Return everything that clients look for."""
    told = standing.told
    said = told is not None and told.text and standing.status is not RunStatus.RUNNING
    error = told.result.error if told is not None else None
    reason = _INCOMPLETE.get(standing.status)
    return {
        "id": f"{PREFIX}{standing.run_id}",
        "object": "response",
        "created_at": int(standing.created_at or time.time()),
        "status": _STATUSES[standing.status],
        "background": False,
        "error": None if error is None else {"code": error.code, "message": error.message, "hint": error.hint},
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": standing.model,
        "output": [message_object(standing)] if said else [],
        "parallel_tool_calls": False,
        "previous_response_id": standing.previous,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if told is None else _usage(told.result.usage),
        "fabric": {"run_id": standing.run_id, "status": standing.status.value} if told is None else told.note,
    }


def message_object(standing: ResponseState) -> dict[str, Any]:
    """Return the one message of a response."""
    text = standing.told.text if standing.told is not None else ""
    return {
        "id": f"msg_{standing.run_id}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
