"""The bodies of OpenAI's chat API, as far as a run can honour them.

What changes only how a model writes (`temperature`, `top_p`, `max_tokens`, `stop`, `seed`, `user` …) is
taken and left aside: specialists have settings of their own. What a client would miss is refused, with its name.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Header
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, StringConstraints
from pydantic.functional_validators import AfterValidator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from agent_fabric.config.constants import MAX_PROMPT_CHARS
from agent_fabric.domain.chat.conversation import ROLES, Asked, Turn, asked_in
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.interfaces.http.openapi import EVERYWHERE, STREAM, gives
from agent_fabric.interfaces.http.schemas import SAYS_SOMETHING

_TEXT_PARTS = {"text", "input_text", "output_text", "refusal"}


class Taken(BaseModel):
    """A part of a request; what is not listed is left aside."""

    model_config = ConfigDict(extra="ignore", strict=True, use_attribute_docstrings=True, hide_input_in_errors=True)


class Shown(BaseModel):
    """A part of an answer, which may hold more."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Only:
    """Lets a parameter have no other values than these, which change nothing."""

    values: Sequence[Any]
    why: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, _: CoreSchema, __: Any) -> dict[str, Any]:
        return {"enum": list(self.values)}

    def _check(self, value: Any) -> Any:
        for allowed in self.values:
            if value == allowed and isinstance(value, bool) == isinstance(allowed, bool):
                return value
        raise PydanticCustomError("unsupported_parameter", "{why}", {"why": self.why})


def _text_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind not in _TEXT_PARTS:
        raise PydanticCustomError(
            "unsupported_content", "only text is supported, not {kind}", {"kind": repr(kind[:100])}
        )
    return part


class TextPart(Taken):
    """A piece of a message."""

    type: Literal["text", "input_text", "output_text"]
    text: str


class RefusalPart(Taken):
    """What an assistant did not want to say."""

    type: Literal["refusal"]
    refusal: str


Part = Annotated[TextPart | RefusalPart, BeforeValidator(_text_part)]
Content = str | list[Part] | None


def text_of(content: Content) -> str:
    """Return what a message says."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


class ChatInput(Taken):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = None

    @property
    def turn(self) -> Turn:
        """The same, as the conversation knows it."""
        return Turn(ROLES[self.role], text_of(self.content))


def asks_for_something(turns: Sequence[Turn]) -> Asked:
    """Return what a conversation asks for.

    Raises:
        PydanticCustomError: nothing, or more than a task may say.
    """
    asked = asked_in(turns)
    if asked is None or not re.search(SAYS_SOMETHING, asked.text):
        raise PydanticCustomError("nothing_asked", "there must be a message of the role 'user' that says something")
    if len(asked.text) > MAX_PROMPT_CHARS:
        raise PydanticCustomError(
            "context_length_exceeded",
            "a task may have {most} characters: put long material into a file",
            {"most": f"{MAX_PROMPT_CHARS:,}"},
        )
    return asked


def _asking(messages: list[ChatInput]) -> list[ChatInput]:
    asks_for_something([message.turn for message in messages])
    return messages


class StreamOptions(Taken):
    """What a stream holds beside the answer."""

    include_usage: bool | None = None
    """Whether the last chunk but the end counts tokens."""
    include_progress: bool | None = None
    """Whether to send what the run does as `reasoning_content`, which chat programs show as thinking."""

    def with_progress(self, wanted: bool) -> "StreamOptions":
        """Return the same, with progress if a header asks for it."""
        return self.model_copy(update={"include_progress": True}) if wanted else self


OWN_TOOLS = "specialists, agents and workflows have tools of their own, and take none from clients"


class RunMetadata(Taken):
    """What a request says of its run; what else it holds is left aside."""

    visibility: Literal["private", "team"] | None = None
    """Who besides its owner sees the run; not set: `identity.visibility` decides."""


Metadata = Annotated[RunMetadata | None, BeforeValidator(lambda value: value if isinstance(value, dict) else None)]


class ChatRequest(
    Taken,
    json_schema_extra={
        "examples": [
            {"model": "pack/engineering", "messages": [{"role": "user", "content": "Write hello.py, and run it."}]}
        ]
    },
):
    """A conversation whose last word is the task. Parameters that are not listed are taken and left aside."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    """Who does it: see `GET /v1/models`."""
    messages: Annotated[list[ChatInput], Field(min_length=1, max_length=10_000), AfterValidator(_asking)]
    """The newest message of the role `user` is the task; all others are given along as background."""
    stream: bool | None = None
    """Whether to send the answer as Server-Sent Events."""
    stream_options: StreamOptions | None = None
    metadata: Metadata = None
    n: Annotated[Any, Only((None, 1), "a task is done once: n must be 1")] = None
    tools: Annotated[Any, Only((None, []), OWN_TOOLS)] = None
    tool_choice: Annotated[Any, Only((None, "none", "auto"), OWN_TOOLS)] = None
    functions: Annotated[Any, Only((None, []), OWN_TOOLS)] = None
    function_call: Annotated[Any, Only((None, "none", "auto"), OWN_TOOLS)] = None
    logprobs: Annotated[Any, Only((None, False), "an answer has no probabilities: leave logprobs out")] = None
    top_logprobs: Annotated[Any, Only((None, 0), "an answer has no probabilities: leave top_logprobs out")] = None
    logit_bias: Annotated[Any, Only((None, {}), "specialists write with their own settings: leave it out")] = None
    response_format: Annotated[
        Any, Only((None, {"type": "text"}), "an answer is text; an agent with declared outputs answers with JSON")
    ] = None
    modalities: Annotated[Any, Only((None, ["text"]), "an answer is text")] = None
    audio: Annotated[Any, Only((None,), "an answer is text")] = None
    web_search_options: Annotated[
        Any, Only((None,), "the pack 'research' searches the web by itself: leave it out")
    ] = None

    @property
    def visibility(self) -> str | None:
        """Who is to see the run beside its owner; None: not said."""
        return None if self.metadata is None else self.metadata.visibility

    @property
    def asked(self) -> Asked:
        """What is to be done."""
        return asks_for_something([message.turn for message in self.messages])

    @property
    def options(self) -> StreamOptions:
        """What a stream holds beside the answer."""
        return self.stream_options or StreamOptions()


class OpenAIModel(
    Shown,
    json_schema_extra={
        "examples": [
            {
                "id": "pack/engineering",
                "object": "model",
                "created": 1794700000,
                "owned_by": "agent-fabric",
                "description": "Builds, tests, repairs and reviews software in the run's workspace.",
            }
        ]
    },
):
    """A pack, agent or workflow that does tasks."""

    id: str
    """What to send as `model`: `pack/NAME`, `agent/NAME`, `workflow/NAME`, or `fabric`, which chooses a pack."""
    object: Literal["model"]
    created: int
    """When the server began to offer it; seconds since 1970."""
    owned_by: str
    description: str


class OpenAIModels(BaseModel):
    """All who do tasks."""

    object: Literal["list"]
    data: list[OpenAIModel]


class RunNote(Shown):
    """The run behind an answer, beyond what OpenAI's API knows."""

    run_id: str
    """See it under `/runs/{run_id}`."""
    status: str | None
    """`waiting` means that a question must be answered first; the answer says what."""
    proof: dict[str, Any] | None = None
    """What bears out the answer of a run that completed: `kind`, `command`, `seq`, `tests`."""
    unproven: str | None = None
    """Why nothing does; the answer ends with it."""


class ErrorBody(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    message: str
    type: str
    param: str | None
    """The parameter that is wrong."""
    code: str
    """For programs; stable."""
    hint: str
    """What to do about it; also at the end of `message`."""


class OpenAIError(BaseModel):
    """An error, in OpenAI's shape."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "error": {
                        "message": "There is no model 'enginering'. Did you mean 'engineering'?",
                        "type": "invalid_request_error",
                        "param": None,
                        "code": "model_not_found",
                        "hint": "Did you mean 'engineering'?",
                    }
                }
            ]
        }
    )

    error: ErrorBody
    fabric: RunNote | None = None


class ChatMessage(Shown):
    """What the specialist answers."""

    role: Literal["assistant"]
    content: str


class ChatChoice(Shown):
    """The one answer."""

    index: Literal[0]
    message: ChatMessage
    finish_reason: Literal["stop"]


class ChatUsage(Shown):
    """Tokens of all model answers of the run together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(Shown):
    """What came of a task, as an answer in a chat."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    fabric: RunNote


STREAM_OR_ANSWER: dict[str, Any] = {
    "description": "The answer; with `stream`, Server-Sent Events",
    "content": STREAM["content"],
    "headers": {"X-Fabric-Run-Id": {"description": "The run.", "schema": {"type": "string"}}},
}

Progress = Annotated[
    bool,
    Header(description="The same as `stream_options.include_progress`, for programs that can only add headers."),
]


def openai_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe errors of a route, with those that every route has."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*EVERYWHERE, 400, 401, 429, *statuses}):
        found |= gives(OpenAIError, status=status, text=HTTPStatus(status).phrase)
    return found
