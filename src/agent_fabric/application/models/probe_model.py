"""Asks a model a few small questions to learn how it calls tools and how fast it is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.llm import ChatClients, ModelChooser, Notice, OnDelta, ProgressText
from agent_fabric.application.ports.models import Speed
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ContextExceeded, ModelAnswerUnusable, ModelBusy, ModelRefused, ModelTimedOut
from agent_fabric.domain.models.found_models import ModelCard
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, Role, ToolDialect, estimate_tokens
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.task import Priority
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import BadArguments, Effect, ToolSpec, arguments_from, object_schema

MAX_ANSWER_TOKENS = 128
"""Tokens; enough for a call of one of the tools below."""
SPEED_ANSWER_TOKENS = 48
_SYSTEM = "You have tools. Call the one that fits the request."
_SPEED_TEXT = "A {word} stood by the sea, and every evening its keeper wrote down the ships that he had seen that day. "


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectTrial:
    """What came of asking for tool calls in one dialect."""

    dialect: ToolDialect
    worked: bool
    said: str
    """What happened, for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe found out."""

    settings: ModelSettings
    """The model as runs have been using it."""
    why: str
    card: ModelCard
    """What is known of it now."""
    trials: tuple[DialectTrial, ...]
    dialect: ToolDialect | None
    """The first dialect that worked; None: the model cannot call tools."""
    window: int | None
    """Tokens that runs can use, as far as the server tells."""
    speed: Speed
    kept: bool
    """Later runs use what was found out."""
    problem: str = ""
    """Why it could not be kept."""


class _Question(NamedTuple):
    text: str
    fits: Callable[[str, Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeModel:
    """Use case: choose as a run would, ask, measure, remember. Never done on a run's own path."""

    chooser: ModelChooser
    clients: ChatClients
    """Without a fallback: another model's answer would say nothing about this one."""
    card_of: Callable[[ModelSettings], Awaitable[ModelCard]]
    """Asks the server of a model that has just answered what it says about it, its window included."""
    remember: Callable[[ModelCard, str], None]
    """Keeps a card for later runs, with its server's address; OSError: it cannot be written."""
    clock: Clock

    async def __call__(self, key: str, notice: Notice) -> Probed:
        """Probe the model that a key means today.

        Raises:
            ModelError: it cannot be asked.
            ConfigError: there is no such key, or its settings cannot be used.
            MissingExtra: its backend is not installed.
        """
        settings, why = await self.chooser.choose(key, notice)
        trials = await self._find_dialect(settings, notice)
        dialect = next((trial.dialect for trial in trials if trial.worked), None)
        notice(ProgressText(f"{settings.model}: measuring its speed"))
        speed = await self._measure(settings, notice)
        card = await self.card_of(settings)
        window = settings.context_window or card.served_window or card.context_window
        found = replace(
            card,
            dialect=dialect or card.dialect,
            calls_tools=dialect is ToolDialect.NATIVE or (dialect is None and card.calls_tools),
            calls_no_tools=dialect is None,
            prompt_tokens_per_s=speed.prompt_tokens_per_s,
            tokens_per_s=speed.tokens_per_s,
        )
        problem = ""
        try:
            self.remember(found, settings.base_url)
        except OSError as failure:
            problem = f"it could not be written down: {failure}"
        return Probed(
            settings=settings,
            why=why,
            card=found,
            trials=tuple(trials),
            dialect=dialect,
            window=window,
            speed=speed,
            kept=not problem,
            problem=problem,
        )

    async def _find_dialect(self, settings: ModelSettings, notice: Notice) -> list[DialectTrial]:
        trials: list[DialectTrial] = []
        for dialect in _order(settings):
            notice(ProgressText(f"{settings.model}: trying {dialect.value} tool calls"))
            trials.append(await self._try(replace(settings, dialect=dialect, strict_native=False), dialect, notice))
            if trials[-1].worked:
                break
        return trials

    async def _try(self, settings: ModelSettings, dialect: ToolDialect, notice: Notice) -> DialectTrial:
        for question in _SCHEMA_QUESTIONS if dialect is ToolDialect.SCHEMA else _QUESTIONS:
            try:
                answer = await self._ask(settings, question.text, notice)
            except (ModelRefused, ModelBusy, ModelAnswerUnusable) as problem:
                if isinstance(problem, ContextExceeded):
                    raise
                # Some servers answer 500 to what they do not know.
                return DialectTrial(dialect=dialect, worked=False, said=problem.message)
            wrong = _what_is_wrong(answer, question)
            if wrong:
                return DialectTrial(dialect=dialect, worked=False, said=wrong)
        said = "every answer is a call" if dialect is ToolDialect.SCHEMA else "called the right tool, twice"
        return DialectTrial(dialect=dialect, worked=True, said=said)

    async def _ask(self, settings: ModelSettings, text: str, notice: Notice) -> LLMResponse:
        messages = [Message(Role.SYSTEM, _SYSTEM), Message(Role.USER, text)]
        # What ends a task is among its tools: without that, it would be a conversation, in which words are free.
        tools = (*_TOOLS, _FINISH) if settings.dialect == ToolDialect.SCHEMA else _TOOLS
        return await self._answer(settings, messages, tools, MAX_ANSWER_TOKENS, notice)

    async def _answer(
        self,
        settings: ModelSettings,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        max_tokens: int,
        notice: Notice,
        on_delta: OnDelta | None = None,
    ) -> LLMResponse:
        async with self.clients.turn(settings, priority=Priority.INTERACTIVE, notice=notice) as client:
            try:
                async with asyncio.timeout(settings.timeout_s):
                    return await client.chat(
                        messages,
                        settings.model,
                        tools=tools,
                        temperature=0.0,
                        top_p=1.0,
                        max_tokens=max_tokens,
                        on_delta=on_delta,
                    )
            except TimeoutError:
                raise ModelTimedOut(
                    f"{settings.model} gave no answer within {settings.timeout_s:g} s",
                    hint=f"Give it more time with `models.{settings.key}.timeout_s`, or take a smaller model.",
                ) from None

    async def _measure(self, settings: ModelSettings, notice: Notice) -> Speed:
        """Time one answer: what passes before its first piece is reading, the rest is writing."""
        begun = self.clock.monotonic()
        # The beginning is new each time, or the server would know the text and not read it.
        text = f"{begun}: " + "".join(_SPEED_TEXT.format(word=word) for word in ("lighthouse", "tower", "mill", "hut"))
        pieces: list[float] = []
        messages = [Message(Role.USER, f"{text}\nGo on with this story at length.")]
        # Whatever it takes to be ready was done by the questions before this one.
        answer = await self._answer(
            replace(settings, dialect=ToolDialect.NATIVE),
            messages,
            (),
            SPEED_ANSWER_TOKENS,
            notice,
            on_delta=lambda _: pieces.append(self.clock.monotonic()),
        )
        ended = self.clock.monotonic()
        usage = answer.usage
        read = usage.prompt_tokens - usage.cached_tokens if usage else estimate_tokens(messages[0].content)
        wrote = usage.completion_tokens if usage else estimate_tokens(answer.content)
        if len(pieces) < 2 or wrote < 2:  # it came in one piece: reading cannot be told from writing
            return Speed()
        return Speed(_rate(read, pieces[0] - begun), _rate(wrote - 1, ended - pieces[0]))


def _order(settings: ModelSettings) -> Sequence[ToolDialect]:
    """Return what to try first. llama.cpp can hold any model to a schema, and small ones need it."""
    if settings.backend == "embedded":
        return (ToolDialect.SCHEMA, ToolDialect.NATIVE, ToolDialect.TEXT)
    return (ToolDialect.NATIVE, ToolDialect.SCHEMA, ToolDialect.TEXT)


def _what_is_wrong(answer: LLMResponse, question: _Question) -> str:
    if answer.recovered:
        return "wrote a call as text instead of making it"
    if not answer.tool_calls:
        return answer.problem or "made no call"
    call = answer.tool_calls[0]
    tool = next((tool for tool in _TOOLS if tool.name == call.tool), None)
    if tool is None:
        return f"called {call.tool!r}, which was not on offer"
    try:
        arguments = arguments_from(call.arguments)
    except BadArguments as problem:
        return str(problem)
    if problems_with(arguments, tool.parameters):
        return f"called {call.tool} with arguments that do not fit"
    return "" if question.fits(call.tool, arguments) else f"called {call.tool}, but not as it was asked to"


def _rate(count: int, seconds: float) -> float | None:
    return round(count / seconds, 1) if count > 0 and seconds > 0 else None


def _tool(name: str, description: str, **properties: Mapping[str, Any]) -> ToolSpec:
    parameters = object_schema(properties, list(properties))
    return ToolSpec(name=name, description=description, parameters=parameters, effect=Effect.READS)


_TOOLS = (
    _tool("get_temperature", "Measure the temperature in a city.", city={"type": "string"}),
    _tool("add_numbers", "Add two numbers.", a={"type": "number"}, b={"type": "number"}),
)
_FINISH = FinishSpec(parameters=object_schema({"summary": {"type": "string"}}, ("summary",))).as_tool()
_TEMPERATURE = _Question(
    "How warm is it in Oslo? Use the tool.",
    lambda tool, arguments: tool == "get_temperature" and "oslo" in str(arguments["city"]).lower(),
)
_SUM = _Question(
    "Add 17 and 25 with the tool.",
    lambda tool, arguments: tool == "add_numbers" and {arguments["a"], arguments["b"]} == {17, 25},
)
_GREETING = _Question("Say hello to me in plain words.", lambda _tool, _arguments: True)
"""No tool fits it: a model that calls one was held to the schema."""
_QUESTIONS = (_TEMPERATURE, _SUM)
_SCHEMA_QUESTIONS = (_TEMPERATURE, _GREETING)
