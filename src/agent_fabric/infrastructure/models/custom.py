"""Model clients of others, named by `module:function` of what builds them."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, Unpack

from agent_fabric.application.ports.llm import ChatClient, ChatOptions, LLMProvider, Notice
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, FabricError, ModelAnswerUnusable
from agent_fabric.domain.models.dialects.answer_parser import interpret_answer
from agent_fabric.domain.models.dialects.request_shape import shape_request
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, ToolDialect, Usage
from agent_fabric.domain.models.thoughts import join_thoughts, split_thoughts


@dataclass(frozen=True, slots=True)
class ChatClientProvider:
    """LLMProvider over a ChatClient."""

    client: ChatClient
    models: Sequence[str] = ()
    """What `list_models` returns: a ChatClient does not know its models."""
    top_p: float = 1.0

    async def complete(
        self, messages: Sequence[Message], *, model: str, temperature: float, max_tokens: int
    ) -> LLMResponse:
        """Ask the client, without tools."""
        return await self.client.chat(
            messages, model, tools=(), temperature=temperature, top_p=self.top_p, max_tokens=max_tokens
        )

    async def list_models(self) -> list[str]:
        """Return the names that were given."""
        return list(self.models)


@dataclass(slots=True)
class ProviderClient:
    """ChatClient over an LLMProvider: tools are described in the messages, and calls are read from the text."""

    provider: LLMProvider
    settings: ModelSettings
    _model: str = field(default="", init=False)

    async def chat(self, messages: Sequence[Message], model: str, **options: Unpack[ChatOptions]) -> LLMResponse:
        tools, on_delta = options["tools"], options.get("on_delta")
        shaped = shape_request(ToolDialect.TEXT, messages, tools, options.get("must_call"))
        self._model = self._model or await self._list_models(model)
        complete: Callable[..., Any] = self.provider.complete
        limits = {"temperature": options["temperature"], "max_tokens": options["max_tokens"]}
        answer = _response(await complete(shaped.messages, model=self._model, **limits))
        if on_delta is not None and answer.content and not shaped.writes_file:
            on_delta(answer.content)
        return interpret_answer(ToolDialect.TEXT, answer, shaped, tools)

    async def _list_models(self, model: str) -> str:
        """Return the configured model; the first that the provider lists when none is configured."""
        names = await self.provider.list_models()
        if not names or model in names:
            return model
        if model == self.settings.key:
            return names[0]
        raise ConfigError(
            f"The provider {self.settings.builder!r} has no model {model!r}; it has: {', '.join(names)}",
            hint=f"Set `models.{self.settings.key}.model` to one of these.",
        )


def _response(answer: Any) -> LLMResponse:
    """Return an answer with `content`, `model`, `prompt_tokens` and `completion_tokens` as ours.

    Raises:
        TypeError: it has no text.
    """
    if isinstance(answer, LLMResponse):
        thoughts, said = split_thoughts(answer.content)
        return replace(answer, content=said, thoughts=join_thoughts(answer.thoughts, thoughts)) if thoughts else answer
    content = getattr(answer, "content", None)
    if not isinstance(content, str):
        raise TypeError(f"it answered with {type(answer).__name__}, not with an LLMResponse")
    read, written = getattr(answer, "prompt_tokens", None), getattr(answer, "completion_tokens", None)
    usage = Usage(read, written) if isinstance(read, int) and isinstance(written, int) else None
    thoughts, said = split_thoughts(content)
    return LLMResponse(content=said, model=str(getattr(answer, "model", "") or ""), usage=usage, thoughts=thoughts)


_EXTRAS = frozenset({"must_call", "on_delta"})
"""Arguments of `chat` that a client need not take."""


class CustomBackend:
    """Backend whose clients are built by the function that `builder` of a model names, once for each model."""

    def __init__(self) -> None:
        self._clients: dict[str, ChatClient] = {}

    async def ready(self, settings: ModelSettings, notice: Notice) -> ChatClient:  # noqa: ARG002 - as every backend
        # All of the settings: a run that is resumed brings those that it began with.
        wanted = repr(settings)
        known = self._clients.get(wanted)
        if known is None:
            client = _built_client(settings)
            known = self._clients[wanted] = ForeignClient(client, settings.builder, _refused_extras(client))
        return known


@dataclass(frozen=True, slots=True)
class ForeignClient:
    """ChatClient over one of others: its exceptions are reported as its own, and it gets only what it takes."""

    inner: ChatClient
    builder: str
    without: frozenset[str] = frozenset()
    """Arguments that it does not take."""

    async def chat(self, messages: Sequence[Message], model: str, **how: Any) -> LLMResponse:
        for name in self.without:
            how.pop(name, None)
        try:
            answer: object = await self.inner.chat(messages, model, **how)
        except (FabricError, TimeoutError):
            raise
        except Exception as problem:
            raise self._failure(f"{type(problem).__name__}: {problem}") from problem
        if not isinstance(answer, LLMResponse):
            raise self._failure(f"it answered with {type(answer).__name__}, not with an LLMResponse")
        return answer

    def _failure(self, why: str) -> ModelAnswerUnusable:
        return ModelAnswerUnusable(
            f"The model client of {self.builder!r} failed: {why}",
            hint="It is not part of agent-fabric: ask its author; see docs/guides/models.md.",
        )


def _refused_extras(client: ChatClient) -> frozenset[str]:
    try:
        taken = inspect.signature(client.chat).parameters
    except (TypeError, ValueError):  # it does not tell
        return frozenset()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
        return frozenset()
    return _EXTRAS.difference(taken)


def _declared_limit(build: Any) -> Callable[[ModelSettings], Any]:
    """Return what is named as a builder if it says that it is one; nothing else is ever called.

    Raises:
        TypeError: it is something else, such as a function that runs commands.
    """
    found: Callable[[ModelSettings], Any] = build
    if isinstance(build, type) and (hasattr(build, "chat") or hasattr(build, "complete")):
        return found
    try:
        taken = next(iter(inspect.signature(build).parameters.values()), None)
    except ValueError:  # of built-in functions, some have none
        taken = None
    if taken is None or (taken.name.strip("_") != "settings" and "ModelSettings" not in str(taken.annotation)):
        raise TypeError(
            "it is not declared as a builder of model clients: its first parameter is neither named `settings` nor "
            "annotated as ModelSettings; it was not called"
        )
    return found


def _built_client(settings: ModelSettings) -> ChatClient:
    module, _, name = settings.builder.partition(":")
    which = f"The builder {settings.builder!r} of the model {settings.key!r}"
    try:
        client: Any = _declared_limit(getattr(importlib.import_module(module), name))(settings)
    except (Exception, SystemExit) as problem:
        raise ConfigError(
            f"{which} failed: {type(problem).__name__}: {problem}",
            hint="It must be importable and take the model's settings; see docs/guides/models.md.",
        ) from problem
    if callable(getattr(client, "chat", None)):
        found: ChatClient = client
        return found
    if callable(getattr(client, "complete", None)) and callable(getattr(client, "list_models", None)):
        return ProviderClient(client, settings)
    raise ConfigError(
        f"{which} returned a {type(client).__name__}, which cannot chat",
        hint="It must return an object with `async def chat(…)`, or with `complete(…)` and `list_models()`, as "
        "agent_fabric.extend.ChatClient and LLMProvider describe them.",
    )
