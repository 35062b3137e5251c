"""Asks a stronger model when the local one does not manage, and tells why."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Unpack, assert_never

from agent_fabric.application.ports.llm import ChatClient, ChatClients, ChatOptions, Notice
from agent_fabric.domain.errors import FabricError, ModelTimedOut
from agent_fabric.domain.models.messages import (
    Fallback,
    LLMResponse,
    Message,
    ModelSettings,
    Role,
    Usage,
    estimate_tokens,
)
from agent_fabric.domain.runs.context_window import estimated_tokens
from agent_fabric.domain.runs.task import Priority
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import FINISH_TASK, BadArguments, ToolSpec, arguments_from

_SPARE_S = 1.0
"""Of the local model's time limit, kept so that its answer can still stand when the cloud's takes too long."""


class FallbackPolicy(StrEnum):
    """What the local model must have got wrong."""

    NO_TOOL_CALLS = "no_tool_calls"
    """It called no tool before any work was done, or nothing that can be understood."""
    MALFORMED_ARGS = "malformed_args"
    """It called a tool that does not exist, or with arguments that do not fit."""
    ALWAYS = "always"
    """Nothing: the cloud model is asked at once."""


class FallbackChatClients:
    """ChatClients whose models are helped by another one.

    Only quality counts: a local server that is down, busy or too slow is an error as ever. Only specialists at work are
    helped; choosing specialists and summing up stay local.
    """

    def __init__(
        self,
        inner: ChatClients,
        cloud: ModelSettings,
        policy: FallbackPolicy | str,
    ) -> None:
        self._inner = inner
        self._cloud = cloud
        self._policy = FallbackPolicy(policy)

    @asynccontextmanager
    async def turn(self, settings: ModelSettings, *, priority: Priority, notice: Notice) -> AsyncIterator[ChatClient]:
        if _same_model(settings, self._cloud):
            async with self._inner.turn(settings, priority=priority, notice=notice) as client:
                yield client
            return
        local = _Turn(self._inner, settings, priority, notice)
        cloud = _Turn(self._inner, self._cloud, priority, notice)
        try:
            if self._policy is not FallbackPolicy.ALWAYS:
                await local.client()  # waited for here, where waiting does not count as the model's time
            yield FallbackChatClient(local, cloud, self._policy)
        finally:
            await local.end()


class FallbackChatClient:
    """ChatClient that asks the local model and, if the policy finds fault with its answer, the cloud's."""

    def __init__(self, local: "_Turn", cloud: "_Turn", policy: FallbackPolicy) -> None:
        self._local = local
        self._cloud = cloud
        self._policy = policy

    async def chat(self, messages: Sequence[Message], model: str, **options: Unpack[ChatOptions]) -> LLMResponse:
        tools, must_call = options["tools"], options.get("must_call")
        helped = any(tool.name == FINISH_TASK for tool in tools)
        if helped and self._policy is FallbackPolicy.ALWAYS:
            answer = await self._ask_cloud(messages, options)
            usage = _usage(messages, answer)
            return replace(answer, usage=usage, cost=self._cost(None, usage), fallback=self._note(self._policy))
        started = time.monotonic()
        client = await self._local.client()
        local = await client.chat(messages, model, **options)
        reason = fault_with(local, self._policy, messages, tools, must_call) if helped else ""
        if not reason:
            return local
        await self._local.end()  # others may have the local server while the cloud thinks
        time_left_s = self._local.settings.timeout_s - (time.monotonic() - started) - _SPARE_S
        return await self._help(local, reason, time_left_s, messages, options)

    async def _help(
        self, local: LLMResponse, reason: str, time_left_s: float, messages: Sequence[Message], options: ChatOptions
    ) -> LLMResponse:
        """Return the cloud's answer; the local one, when there is none."""
        usage = _usage(messages, local)
        try:
            async with asyncio.timeout(max(time_left_s, 0.0)):
                answer = await self._ask_cloud(messages, options)
        except (FabricError, TimeoutError) as problem:
            error = problem.message if isinstance(problem, FabricError) else "too little time was left"
            self._cloud.notice(f"the cloud model gave no answer: {error}")
            return replace(local, cost=self._cost(usage, None), fallback=self._note(reason, error))
        second = _usage(messages, answer)
        return replace(answer, usage=usage + second, cost=self._cost(usage, second), fallback=self._note(reason))

    async def _ask_cloud(self, messages: Sequence[Message], options: ChatOptions) -> LLMResponse:
        settings = self._cloud.settings
        own: ChatOptions = {
            **options,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "max_tokens": settings.max_tokens,
        }
        try:
            client = await self._cloud.client()
            async with asyncio.timeout(settings.timeout_s):
                return await client.chat(messages, settings.model, **own)
        except TimeoutError:
            raise ModelTimedOut(
                f"The model {settings.model!r} at {settings.base_url} did not answer within {settings.timeout_s:g} "
                "seconds",
                hint="Give it more time with `timeout_s` in the model's configuration.",
            ) from None
        finally:
            await self._cloud.end()

    def _note(self, reason: str, error: str = "") -> Fallback:
        cloud = self._cloud.settings
        return Fallback(
            reason=reason,
            local_model=self._local.settings.model,
            cloud_model=cloud.model,
            base_url=cloud.base_url if self._cloud.begun else "",
            error=error,
        )

    def _cost(self, local: Usage | None, cloud: Usage | None) -> float | None:
        """Return the price of both answers, as far as prices are known."""
        prices = (self._local.settings.price, self._cloud.settings.price)
        if prices == (None, None):
            return None
        asked = zip(prices, (local, cloud), strict=True)
        return sum((price.of(usage) for price, usage in asked if price is not None and usage is not None), 0.0)


class _Turn:
    """A turn at a model, taken when it is needed and given back before its context ends."""

    def __init__(self, clients: ChatClients, settings: ModelSettings, priority: Priority, notice: Notice) -> None:
        self.settings = settings
        self.notice = notice
        self.begun = False
        """It came to be our turn, so that something may have been sent."""
        self._clients = clients
        self._priority = priority
        self._stack = AsyncExitStack()
        self._client: ChatClient | None = None

    async def client(self) -> ChatClient:
        if self._client is None:
            turn = self._clients.turn(self.settings, priority=self._priority, notice=self.notice)
            self._client = await self._stack.enter_async_context(turn)
            self.begun = True
        return self._client

    async def end(self) -> None:
        self._client = None
        await self._stack.aclose()


def fault_with(
    answer: LLMResponse,
    policy: FallbackPolicy,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    must_call: str | None = None,
) -> str:
    """Return what a policy finds wrong with an answer, in a few words; empty when it is good enough."""
    match policy:
        case FallbackPolicy.NO_TOOL_CALLS:
            return _missing_call(answer, messages, must_call)
        case FallbackPolicy.MALFORMED_ARGS:
            return _malformed_call(answer, tools)
        case FallbackPolicy.ALWAYS:
            return policy.value
        case unknown:
            assert_never(unknown)


def _missing_call(answer: LLMResponse, messages: Sequence[Message], must_call: str | None) -> str:
    if answer.tool_calls:
        return ""
    if answer.problem or must_call is not None or not answer.content.strip():
        return FallbackPolicy.NO_TOOL_CALLS
    # After some work, plain text is how many models say that they are done, and the engine takes it for that.
    worked = any(message.role is Role.TOOL for message in messages)
    return "" if worked else FallbackPolicy.NO_TOOL_CALLS


def _malformed_call(answer: LLMResponse, tools: Sequence[ToolSpec]) -> str:
    if answer.problem:
        return FallbackPolicy.MALFORMED_ARGS
    offered = {tool.name: tool for tool in tools}
    for call in answer.tool_calls:
        tool = offered.get(call.tool)
        if tool is None:
            return FallbackPolicy.MALFORMED_ARGS
        try:
            arguments = arguments_from(call.arguments)
        except BadArguments:
            return FallbackPolicy.MALFORMED_ARGS
        if problems_with(arguments, tool.parameters):
            return FallbackPolicy.MALFORMED_ARGS
    return ""


def _same_model(one: ModelSettings, other: ModelSettings) -> bool:
    return (one.base_url, one.model) == (other.base_url, other.model)


def _usage(messages: Sequence[Message], answer: LLMResponse) -> Usage:
    if answer.usage is not None:
        return answer.usage
    written = estimate_tokens(answer.content) + sum(estimate_tokens(call.arguments) for call in answer.tool_calls)
    return Usage(estimated_tokens(messages), written)
