"""The conversation with a model: what goes in, what comes out."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.addresses import is_local_url

DEFAULT_ANSWER_CHARS = 128_000
"""Of one answer, unless `max_tokens` means more: ten times what most answers may have."""
CHARS_PER_TOKEN = 8
"""Twice what a token of prose has: an answer that keeps to `max_tokens` is not cut."""
_HOSTED = (":cloud", "-cloud")
"""How the names of models end that Ollama itself asks for elsewhere."""


class ToolDialect(StrEnum):
    """How a model calls tools: declared for each model, logged with every answer, never guessed for one message."""

    NATIVE = "native"
    """By the server's own tool calls."""
    SCHEMA = "schema"
    """The server lets the model write nothing but a JSON object that is a call of a tool on offer."""
    TEXT = "text"
    """By a fenced `tool_call` block in plain text."""


class Role(StrEnum):
    """Who speaks. Observations are always `tool`: untrusted output never gains the system's authority."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A tool call as the model asked for it."""

    call_id: CallId
    tool: str
    arguments: str
    """The text the model wrote; it may not even be JSON. Kept as it came, so that the prompt stays byte-stable."""


class _Encodable:
    """Has room for what a client makes of a message: a conversation is sent again with each request."""

    __slots__ = ("encoded",)
    encoded: Any
    """Set by the client that encodes it first; it is no part of the message."""


@dataclass(frozen=True, slots=True)
class Message(_Encodable):
    """One entry of a conversation."""

    role: Role
    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()
    """Only in an assistant's message."""
    call_id: CallId | None = None
    """Only in a tool's message: the call that it answers."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model call took."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Of the prompt, what the server still knew from before and did not have to read again."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


MAX_COST = 1_000_000_000.0
"""The most that a limit of what runs cost may be set to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """What a model's tokens cost, for each million of them."""

    input: float
    output: float
    cached_input: float | None = None
    """For prompt tokens that the server still knew; None: as much as others."""
    currency: str = "USD"

    def of(self, usage: Usage) -> float:
        """Return the price of one call."""
        cached = self.input if self.cached_input is None else self.cached_input
        # Some servers leave what they still knew out of the prompt's tokens.
        known = usage.cached_tokens if usage.cached_tokens <= usage.prompt_tokens else 0
        fresh = usage.prompt_tokens - known
        return (fresh * self.input + usage.cached_tokens * cached + usage.completion_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """A second model was asked because the first one did not do well enough."""

    reason: str
    local_model: str
    cloud_model: str
    base_url: str
    """Where the second model is; empty when nothing was sent there."""
    error: str = ""
    """Why the second model gave no answer, so that the first one's stands; empty when it gave one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMResponse:
    """A model's answer: text, tool calls, or both."""

    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()
    usage: Usage | None = None
    """None when the server did not say."""
    model: str = ""
    """The model that answered, as the server names it."""
    finish_reason: str = ""
    dialect: ToolDialect = ToolDialect.NATIVE
    """How its tool calls were made."""
    recovered: bool = False
    """The calls stood in the text although the model has a way of its own to make them."""
    problem: str = ""
    """What is wrong with a call that it tried to make, told to the model; empty when there is nothing."""
    fallback: Fallback | None = None
    """Set when another model than the one asked for was asked as well."""
    cost: float | None = None
    """Price of the answer when its client knows it better than the model's settings do."""
    cut: int = 0
    """Characters after which it was cut, because no more are taken; 0: it is whole. See `cut_answer`."""
    thoughts: str = ""
    """What the model thought before it answered; no part of the answer, and never sent back."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt; 0 when the server did not say."""
        return 0 if self.usage is None else self.usage.prompt_tokens

    @property
    def completion_tokens(self) -> int:
        """Tokens of the answer; 0 when the server did not say."""
        return 0 if self.usage is None else self.usage.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model and how to call it, as a run froze it into its log."""

    key: str
    backend: str
    base_url: str
    model: str
    temperature: float
    top_p: float
    max_tokens: int
    timeout_s: float
    connect_timeout_s: float
    context_window: int | None = None
    """Tokens that fit, prompt and answer together; None: not known."""
    api_key: str | None = None
    """A reference such as `env:NAME`; never the key."""
    ca_file: str | None = None
    headers: Mapping[str, str] | None = None
    dialect: str = ToolDialect.NATIVE
    strict_native: bool = False
    """A call that stands in the text is left there, and a model that cannot call tools is an error."""
    compact: bool = False
    """The model is small or slow: it gets short prompts, short tool descriptions and little of a tool's output."""
    sets_window: bool = False
    """The server is told to provide `context_window`; otherwise it is what the server has anyway."""
    slots: int | None = None
    """How many requests the server serves at once; None: as many as come."""
    price: ModelPrice | None = None
    remote: bool = False
    """The server passes requests on to another machine, as Ollama does for models of its cloud."""
    builder: str = ""
    """What builds the client of a backend that is none of ours: `module:function`."""
    max_answer_chars: int | None = None
    """Characters that are taken of one answer; None: see `answer_chars`."""
    adapter: str = ""
    """The file of the LoRA adapter that is loaded beside the weights; empty: none."""
    keeps_reasoning: bool = True
    """What it thinks before it answers is logged."""
    keep_alive_s: int | None = None
    """How long Ollama keeps it loaded after its last use; -1: for ever, None: as Ollama is set up."""

    @property
    def answer_chars(self) -> int:
        """Characters of text, thoughts and arguments that are taken of one answer."""
        return self.max_answer_chars or max(DEFAULT_ANSWER_CHARS, CHARS_PER_TOKEN * self.max_tokens)

    @property
    def is_ours(self) -> bool:
        """Whether a process of ours on this machine serves it: its address means nothing to a person."""
        return self.backend in ("embedded", "managed")

    @property
    def address(self) -> str | None:
        """Where it is asked; None: inside agent-fabric."""
        return None if self.is_ours else self.base_url

    @property
    def is_local(self) -> bool:
        """Whether it is asked without leaving this machine. A name that is not `localhost` is elsewhere."""
        hosted = self.remote or self.model.lower().endswith(_HOSTED)
        return self.is_ours or (not hosted and is_local_url(self.base_url))


def estimate_tokens(text: str) -> int:
    """Roughly count tokens, for servers that do not report usage."""
    return len(text) // 4 + 1


SHOWN_OF_CUT: Final = 2_000
"""Characters of a cut answer that the model sees again: a text that did not end would fill its window."""


def cut_answer(answer: LLMResponse, most: int) -> LLMResponse:
    """Return an answer of at most `most` characters, the very same one if it has no more.

    Nothing that a cut answer asks for is done: its calls are not whole, and what follows them is not known.
    """
    size = len(answer.content)
    for call in answer.tool_calls:
        size += len(call.arguments)
    if size <= most and not answer.cut:
        return answer
    return replace(
        answer,
        content=answer.content[:most],
        tool_calls=(),
        finish_reason="length",
        recovered=False,
        cut=most,
        problem=f"Your answer was cut after {most:,} characters, and nothing that it asked for was done. An answer may "
        f"have at most {most:,} characters, thoughts and the arguments of calls included. Answer again, shorter; write "
        "long files in parts.",
    )


def shown_of_cut(content: str, cut: int) -> str:
    """Return a cut answer as the conversation keeps it."""
    if len(content) <= SHOWN_OF_CUT:
        return content
    return f"{content[:SHOWN_OF_CUT]}\n[… the rest of this answer, cut after {cut:,} characters, is left out]"
