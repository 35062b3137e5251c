"""What every pack is made of."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agent_fabric.domain.packs import FinishSpec
from agent_fabric.domain.tools import ToolContext, ToolResult, ToolSpec

ToolFunction = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
"""A tool as the engine calls it."""


class BaseSpecialistPack:
    """SpecialistPack and ToolExecutor over a system prompt, a map of tools and a finish schema.

    Subclass it only to start and stop things around a run; everything else is an argument.
    """

    def __init__(
        self,
        *,
        system_prompt: str,
        tools: Sequence[tuple[ToolSpec, ToolFunction]],
        finish: FinishSpec,
        hidden: Sequence[tuple[ToolSpec, ToolFunction]] = (),
    ) -> None:
        self.system_prompt = system_prompt
        self.tool_definitions: tuple[ToolSpec, ...] = tuple(spec for spec, _ in tools)
        self.hidden_tools: tuple[ToolSpec, ...] = tuple(spec for spec, _ in hidden)
        """Tools that are not offered in this run, but answer if a model calls them all the same."""
        self.finish = finish
        self._tools = {spec.name: function for spec, function in (*tools, *hidden)}

    async def aopen(self) -> None:
        """Nothing to start."""

    async def aclose(self) -> None:
        """Nothing to end."""

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run one tool.

        Raises:
            KeyError: there is no such tool; `finish_task` never is one.
        """
        return await self._tools[name](args, context)


async def _on_a_thread(work: Callable[[], Any]) -> Any:
    """Run blocking work on a thread of its own, for which nobody has to wait: one that hangs must not keep us alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def run() -> None:
        try:
            value = work()
        except BaseException as problem:  # noqa: BLE001 - handed to whoever awaits
            told = partial(future.set_exception, problem)
        else:
            told = partial(future.set_result, value)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, told)

    context = contextvars.copy_context()  # so that what the work logs says whose it is
    threading.Thread(target=context.run, args=(run,), name="fabric-tool", daemon=True).start()
    return await future


def tool_from(function: Callable[..., Any]) -> ToolFunction:
    """Make a tool of a plain function that takes the arguments by name and returns a dict (or anything JSON has).

    A function that is not async runs on a thread, so that it may block.
    """

    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG001 - as every tool
        if inspect.iscoroutinefunction(function):
            output = await function(**args)
        else:
            output = await _on_a_thread(lambda: function(**args))
        if isinstance(output, ToolResult):
            return output
        return ToolResult(output=output if isinstance(output, Mapping) else {"result": output})

    return call
