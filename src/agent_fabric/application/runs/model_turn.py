"""One attempt to ask a model, told as events."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.llm import ChatClients
from agent_fabric.domain.errors import FabricError, ModelError, ModelTimedOut
from agent_fabric.domain.events import Body, ContextCompacted, ModelAnswered, ModelFailed
from agent_fabric.domain.messages import LLMResponse, Message, ModelSettings, Role, Usage, estimate_tokens
from agent_fabric.domain.runs.compaction import digest, instruction, summary_message
from agent_fabric.domain.runs.state import Lane
from agent_fabric.domain.tools import FINISH_TASK, ToolSpec


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """Use case: ask a lane's model once."""

    clients: ChatClients
    clock: Clock

    async def __call__(
        self,
        lane: Lane,
        *,
        attempt: int,
        delay_s: float,
        must_finish: bool,
        time_left_s: float | None,
        on_delta: Callable[[str], None] | None,
    ) -> Sequence[Body]:
        """Return the answer, or the failure, as one event."""
        if delay_s:
            await self.clock.sleep(delay_s)
        answer = await self.attempt(
            lane.model,
            lane.messages,
            tools=lane.offered,
            must_call=FINISH_TASK if must_finish else None,
            number=attempt,
            time_left_s=time_left_s,
            on_delta=on_delta,
        )
        return (answer,)

    async def attempt(
        self,
        model: ModelSettings,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec],
        must_call: str | None,
        number: int,
        time_left_s: float | None,
        on_delta: Callable[[str], None] | None = None,
    ) -> ModelAnswered | ModelFailed:
        """Ask any model anything, once."""
        started = self.clock.monotonic()
        try:
            response = await self._ask(
                model, messages, tools=tools, must_call=must_call, time_left_s=time_left_s, on_delta=on_delta
            )
        except FabricError as problem:
            return _failed(problem, number, self.clock.monotonic() - started)
        usage = response.usage
        return ModelAnswered(
            content=response.content,
            tool_calls=response.tool_calls,
            usage=usage or _estimated(messages, response),
            usage_estimated=usage is None,
            model=response.model,
            finish_reason=response.finish_reason,
            duration_s=self.clock.monotonic() - started,
        )

    async def summarise(self, lane: Lane, first: int, last: int, *, time_left_s: float | None) -> Sequence[Body]:
        """Replace old messages by the model's own summary, or by a plain list when it cannot give one."""
        started = self.clock.monotonic()
        old = lane.messages[first:last]
        summary, by_model, usage = digest(old), False, Usage(0, 0)
        question = Message(Role.USER, f"{_transcript(old)}\n\n{instruction()}")
        try:
            response = await self._ask(
                lane.model,
                [*lane.messages[:first], question],
                tools=(),
                must_call=None,
                time_left_s=time_left_s,
                on_delta=None,
            )
        except FabricError:
            pass  # the list of what was done stands in; by_model says so
        else:
            usage = response.usage or usage
            if response.content.strip():
                summary, by_model = response.content.strip(), True
        return (
            ContextCompacted(
                first=first,
                last=last,
                summary=summary_message(summary),
                by_model=by_model,
                usage=usage,
                duration_s=self.clock.monotonic() - started,
            ),
        )

    async def _ask(
        self,
        settings: ModelSettings,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec],
        must_call: str | None,
        time_left_s: float | None,
        on_delta: Callable[[str], None] | None,
    ) -> LLMResponse:
        timeout_s = settings.timeout_s if time_left_s is None else min(settings.timeout_s, time_left_s)
        client = self.clients.client_for(settings)
        try:
            async with asyncio.timeout(timeout_s):
                return await client.chat(
                    messages,
                    settings.model,
                    tools=tools,
                    temperature=settings.temperature,
                    top_p=settings.top_p,
                    max_tokens=settings.max_tokens,
                    must_call=must_call,
                    on_delta=on_delta,
                )
        except TimeoutError:
            raise ModelTimedOut(
                f"The model {settings.model!r} at {settings.base_url} did not answer within {timeout_s:g} seconds",
                hint="Give it more time with `timeout_s` in the model's configuration, or use a smaller model.",
            ) from None


def _failed(problem: FabricError, attempt: int, duration_s: float) -> ModelFailed:
    return ModelFailed(
        error_type=problem.code,
        error_message=problem.message,
        hint=problem.hint,
        attempt=attempt,
        retryable=isinstance(problem, ModelError) and problem.retryable,
        retry_after_s=problem.retry_after_s if isinstance(problem, ModelError) else None,
        duration_s=duration_s,
    )


def _estimated(messages: Sequence[Message], response: LLMResponse) -> Usage:
    asked = sum(estimate_tokens(message.content) for message in messages)
    written = estimate_tokens(response.content) + sum(estimate_tokens(call.arguments) for call in response.tool_calls)
    return Usage(asked, written)


def _transcript(messages: Sequence[Message], limit: int = 60_000) -> str:
    lines: list[str] = []
    for message in messages:
        lines.append(f"{message.role}: {message.content[:2_000]}")
        lines.extend(f"{message.role} calls {call.tool} {call.arguments[:2_000]}" for call in message.tool_calls)
    return "\n".join(lines)[-limit:]
