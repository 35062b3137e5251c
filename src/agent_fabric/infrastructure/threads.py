"""Blocking work on threads that nobody has to wait for."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


async def on_own_thread(work: Callable[[], T]) -> T:
    """Run blocking work on a thread of its own.

    Unlike `asyncio.to_thread`, for what may take long or hang: neither the end of the loop nor of the process waits for
    it, and it takes nobody's place in a pool.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

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
    threading.Thread(target=context.run, args=(run,), name="fabric-work", daemon=True).start()
    return await future


async def call_function(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call and await a coroutine function; run any other one on a thread of its own."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    output = await on_own_thread(lambda: function(*args, **kwargs))
    return await output if inspect.isawaitable(output) else output  # a lambda or partial around a coroutine
