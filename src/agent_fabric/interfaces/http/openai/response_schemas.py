"""The bodies of OpenAI's Responses API, as far as a run can honour them."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic.functional_validators import AfterValidator
from pydantic_core import PydanticCustomError

from agent_fabric.domain.chat.conversation import ROLES, USER, Asked, Turn
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
