"""One attempt to ask a model, told as events."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.llm import ChatClient, ChatClients, Notice, OnDelta
from agent_fabric.application.time_limit import TimeLimit
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ModelError, ModelTimedOut
from agent_fabric.domain.events import Body, ContextCompacted, ContextTruncated, ModelAnswered, ModelFailed
from agent_fabric.domain.models.events import CloudFallbackUsed, ModelReasoned, ToolCallRecovered
from agent_fabric.domain.models.found_models import host_elsewhere
from agent_fabric.domain.models.messages import (
    LLMResponse,
    Message,
    ModelSettings,
    Role,
    ToolCallRequest,
    Usage,
    cut_answer,
    estimate_tokens,
)
from agent_fabric.domain.models.thoughts import MAX_KEPT_CHARS
from agent_fabric.domain.runs.context_window import digest, instruction, summary_message, truncation_of
from agent_fabric.domain.runs.state import Lane
from agent_fabric.domain.runs.task import Priority
from agent_fabric.domain.secrets.shapes import MAX_SCANNED, hide_shapes, scannable_parts
from agent_fabric.domain.tools.specs import FINISH_TASK, ToolSpec


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """Use case: ask a lane's model once."""

    clients: ChatClients
    clock: Clock
    scanning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a long answer is looked at: one of them at a time."""

    async def __call__(
        self,
        lane: Lane,
        *,
        attempt: int,
        delay_s: float,
        must_finish: bool,
        time_left_s: float | None,
        priority: Priority,
        notice: Notice,
        on_delta: OnDelta | None,
    ) -> Sequence[Body]:
        """Return the answer or the failure as an event, and with it what is remarkable about it."""
        if delay_s:
            await self.clock.sleep(delay_s)
        asked = _Question(lane.model, lane.messages, lane.offered, FINISH_TASK if must_finish else None)
        answer, response = await self._attempt(asked, attempt, time_left_s, priority, notice, on_delta)
        if response is None:
            return (answer,)
        is_usual = response.usage is not None and _has_grown(lane, response.usage)
        if is_usual and response.fallback is None and not (response.recovered or response.thoughts):
            return (answer,)
        thoughts = await self._thoughts(lane.model, response)
        return (answer, *thoughts, *_remarks(lane, response))

    async def attempt(
        self,
        model: ModelSettings,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec],
        must_call: str | None,
        number: int,
        time_left_s: float | None,
        priority: Priority,
        notice: Notice,
    ) -> ModelAnswered | ModelFailed:
        """Ask any model anything, once."""
        asked = _Question(model, messages, tools, must_call)
        return (await self._attempt(asked, number, time_left_s, priority, notice, None))[0]

    async def summarise(
        self, lane: Lane, first: int, last: int, *, time_left_s: float | None, priority: Priority, notice: Notice
    ) -> Sequence[Body]:
        """Replace old messages by the model's own summary, or by a plain list when it cannot give one."""
        old = lane.messages[first:last]
        summary, by_model, usage, cost = digest(old), False, Usage(0, 0), None
        question = Message(Role.USER, f"{_transcript(old)}\n\n{instruction()}")
        asked = _Question(lane.model, [*lane.messages[:first], question], (), None)
        answer, _ = await self._attempt(asked, 1, time_left_s, priority, notice, None)
        if isinstance(answer, ModelAnswered):  # else the list of what was done stands in; by_model says so
            usage, cost = answer.usage, answer.cost
            if answer.content.strip() and not answer.cut:
                summary, by_model = answer.content.strip(), True
        return (
            ContextCompacted(
                first=first,
                last=last,
                summary=summary_message(summary),
                by_model=by_model,
                usage=usage,
                duration_s=answer.duration_s,
                cost=cost,
            ),
        )

    async def _attempt(
        self,
        asked: "_Question",
        number: int,
        time_left_s: float | None,
        priority: Priority,
        notice: Notice,
        on_delta: OnDelta | None,
    ) -> tuple[ModelAnswered | ModelFailed, LLMResponse | None]:
        started, egress = self.clock.monotonic(), ""
        try:
            async with self.clients.turn(asked.model, priority=priority, notice=notice) as client:
                started = self.clock.monotonic()  # waiting for our turn, or for a download, is not working
                egress = egress_to(asked.model)
                response = cut_answer(await _ask(client, asked, time_left_s, on_delta), asked.model.answer_chars)
        except FabricError as problem:
            return failure_event(problem, number, self.clock.monotonic() - started, egress), None
        usage = response.usage or _estimate(asked.messages, response)
        price, content = asked.model.price, response.content
        calls = list[ToolCallRequest]()
        for call in response.tool_calls:
            given = call.arguments
            is_plain = len(given) <= MAX_SCANNED and "\\u" not in given and hide_shapes(given) is given
            calls.append(call if is_plain else await self._without_secrets(call))
        return ModelAnswered(
            content=await self._without_shapes(content) if len(content) > MAX_SCANNED else hide_shapes(content),
            tool_calls=tuple(calls),
            usage=usage,
            usage_estimated=response.usage is None,
            model=response.model,
            finish_reason=response.finish_reason,
            duration_s=self.clock.monotonic() - started,
            tool_dialect=response.dialect,
            problem=response.problem,
            cost=response.cost if response.cost is not None or price is None else price.of(usage),
            egress=egress,
            cut=response.cut,
        ), response

    async def _thoughts(self, model: ModelSettings, response: LLMResponse) -> Sequence[Body]:
        """Return what the model thought, if that is kept."""
        if not response.thoughts or not model.keeps_reasoning:
            return ()
        text = await self._without_shapes(response.thoughts[:MAX_KEPT_CHARS])
        return (ModelReasoned(text=text, chars=len(response.thoughts), model=response.model),)

    async def _without_secrets(self, call: ToolCallRequest) -> ToolCallRequest:
        arguments = call.arguments
        long = len(arguments) > MAX_SCANNED
        arguments = await self._without_shapes(arguments) if long else hide_shapes(arguments)
        if "\\u" in arguments:  # letters may be escaped, too
            try:
                given = json.loads(arguments)
            except ValueError:
                given = None  # it is no call either, and refused as such
            hidden = hide_shapes(given)
            if hidden is not given:
                arguments = json.dumps(hidden, ensure_ascii=False)
        return call if arguments == call.arguments else replace(call, arguments=arguments)

    async def _without_shapes(self, text: str) -> str:
        """Return a long text in which nothing looks like a secret; it is looked at in parts, others in between."""
        hidden: list[str] = []
        async with self.scanning:
            for part in scannable_parts(text):
                hidden.append(hide_shapes(part))
                await asyncio.sleep(0)
        return "".join(hidden)


class _Question(NamedTuple):
    model: ModelSettings
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    must_call: str | None


async def _ask(
    client: ChatClient, asked: _Question, time_left_s: float | None, on_delta: OnDelta | None
) -> LLMResponse:
    settings = asked.model
    timeout_s = settings.timeout_s if time_left_s is None else min(settings.timeout_s, time_left_s)
    try:
        with TimeLimit(timeout_s):
            return await client.chat(
                asked.messages,
                settings.model,
                tools=asked.tools,
                temperature=settings.temperature,
                top_p=settings.top_p,
                max_tokens=settings.max_tokens,
                must_call=asked.must_call,
                on_delta=on_delta,
            )
    except TimeoutError:
        raise ModelTimedOut(
            f"The model {settings.model!r} at {settings.base_url} did not answer within {timeout_s:g} seconds",
            hint="Give it more time with `timeout_s` in the model's configuration, or use a smaller model.",
        ) from None


def _remarks(lane: Lane, response: LLMResponse) -> Iterator[Body]:
    """Tell what a person should know about an answer."""
    if response.recovered:
        yield ToolCallRecovered(tools=tuple(call.tool for call in response.tool_calls), model=response.model)
    if response.fallback is not None:
        note = response.fallback
        yield CloudFallbackUsed(
            reason=note.reason,
            local_model=note.local_model,
            cloud_model=note.cloud_model,
            base_url=note.base_url,
            error=note.error,
        )
    elif response.usage is not None and not lane.truncated and not _has_grown(lane, response.usage):
        truncated = truncation_of(lane.messages, response.usage, lane.window)
        if truncated is not None:
            yield ContextTruncated(
                sent_tokens=truncated.sent_tokens, read_tokens=truncated.read_tokens, hint=HOW_TO_WIDEN
            )


def _has_grown(lane: Lane, usage: Usage) -> bool:
    """Tell whether the server read more than the turn before, and has room left: then it dropped nothing.

    Most turns end here; counting a whole conversation costs more than the rest of a turn.
    """
    room = lane.window is None or usage.prompt_tokens < 0.9 * lane.window
    return 0 < lane.context_tokens <= usage.prompt_tokens and room


HOW_TO_WIDEN = (
    "The server dropped the beginning of the conversation without saying so. Set `context_window` for this model: then "
    "the server is asked for that window, or the conversation is shortened in time."
)


def egress_to(model: ModelSettings) -> str:
    """Return the other machine that a question to a model goes to; empty when there is none."""
    return f"{model.model} through Ollama" if model.remote else host_elsewhere(model.base_url)


def failure_event(problem: FabricError, attempt: int, duration_s: float, egress: str = "") -> ModelFailed:
    """Return the event that tells why an attempt gave no answer."""
    return ModelFailed(
        error_type=problem.code,
        error_message=problem.message,
        hint=problem.hint,
        attempt=attempt,
        retryable=isinstance(problem, ModelError) and problem.retryable,
        retry_after_s=problem.retry_after_s if isinstance(problem, ModelError) else None,
        duration_s=duration_s,
        egress=egress,
    )


def _estimate(messages: Sequence[Message], response: LLMResponse) -> Usage:
    asked = sum(estimate_tokens(message.content) for message in messages)
    if response.cut:
        return Usage(asked, response.cut // 4)  # of which the text may be the smaller part
    written = estimate_tokens(response.content) + sum(estimate_tokens(call.arguments) for call in response.tool_calls)
    return Usage(asked, written)


def _transcript(messages: Sequence[Message], limit: int = 60_000) -> str:
    lines: list[str] = []
    for message in messages:
        lines.append(f"{message.role}: {message.content[:2_000]}")
        lines.extend(f"{message.role} calls {call.tool} {call.arguments[:2_000]}" for call in message.tool_calls)
    return "\n".join(lines)[-limit:]
