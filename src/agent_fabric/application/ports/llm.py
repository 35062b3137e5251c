"""Models, seen from the engine."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, NotRequired, Protocol, Self, TypedDict

from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings
from agent_fabric.domain.runs.task import Priority
from agent_fabric.domain.tools.specs import ToolSpec

OnDelta = Callable[[str], None]
"""Gets pieces of the answer's text as they come. For the eye only: nothing follows from them."""
Notice = Callable[[str], None]
"""Gets short texts about what is going on (a download, a queue). For the eye only: nothing follows from them."""


class ProgressText(str):
    """Text of a notice that says how far something is: at a terminal the next one takes its place, others stay."""

    __slots__ = ()


class QueuedText(ProgressText):
    """Text of a notice that says how many go before at a model server."""

    ahead: int

    def __new__(cls, text: str, ahead: int) -> Self:
        """Take the words and the number."""
        made = super().__new__(cls, text)
        made.ahead = ahead
        return made


class ChatOptions(TypedDict):
    """How a model is to answer; what a client around another one hands on."""

    tools: Sequence[ToolSpec]
    temperature: float
    top_p: float
    max_tokens: int
    must_call: NotRequired[str | None]
    on_delta: NotRequired[OnDelta | None]


class ChatClient(Protocol):
    """Asks one model server.

    One call is one attempt: the engine decides whether to try again, so that every attempt is in the log. Time-outs are
    the caller's, except for connecting. Cancelling the call closes its connection.
    """

    async def chat(
        self,
        messages: Sequence[Message],
        model: str,
        *,
        tools: Sequence[ToolSpec],
        temperature: float,
        top_p: float,
        max_tokens: int,
        must_call: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> LLMResponse:
        """Return the model's answer; `must_call` names the one tool that it should choose.

        Raises:
            ModelError: there is no usable answer; the subclass says why.
        """
        ...


class LLMProvider(Protocol):
    """A model service without tool calls: text in, text out.

    `models.<key>.builder` may return one instead of a ChatClient; tools are then called in the text dialect.
    """

    async def complete(
        self, messages: Sequence[Message], *, model: str, temperature: float, max_tokens: int
    ) -> LLMResponse:
        """Return the model's answer.

        Raises:
            ModelError: there is no usable answer; the subclass says why.
        """
        ...

    async def list_models(self) -> list[str]:
        """Return the names of its models."""
        ...


class ChatClients(Protocol):
    """Gives clients for models; requests to the same server take turns if it cannot serve them all at once."""

    def turn(
        self, settings: ModelSettings, *, priority: Priority, notice: Notice
    ) -> AbstractAsyncContextManager[ChatClient]:
        """Wait until the model's server is ready and it is our turn, which lasts as long as the context is open.

        Entering raises:
            ModelError: the server or the model cannot be had.
            ConfigError: the settings name a backend or a key that does not exist.
            MissingExtra: the backend is not installed.
        """
        ...


class ChosenModel(NamedTuple):
    """A model to work with."""

    settings: ModelSettings
    why: str
    """Why this one, in a few words for a person."""


class ModelChooser(Protocol):
    """Knows which model a key of the configuration means today, on this machine."""

    async def choose(self, key: str, notice: Notice) -> ChosenModel:
        """Find the model; it is recorded, and the run keeps it for good.

        A server that cannot be reached is no error here: asking the model then fails, and that is in the log.

        Raises:
            ConfigError: there is no such key.
        """
        ...
