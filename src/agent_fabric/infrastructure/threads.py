"""Blocking work on threads that need not be waited for."""

import asyncio
import contextvars
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from agent_fabric.application.ports.packs import StillRunning

T = TypeVar("T")
SHORT_TURN_S = 0.001
USUAL_TURN_S = sys.getswitchinterval()

_guard = threading.Lock()
_holders = 0


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns more often, so that one that computes keeps the event loop waiting less.

    Only while it is needed: every turn costs, and a busy server would do a tenth less.
    """
    global _holders  # noqa: PLW0603 - the interval is one for the process
    with _guard:
        _holders += 1
        if _holders == 1:
            sys.setswitchinterval(SHORT_TURN_S)
    try:
        yield
    finally:
        with _guard:
            _holders -= 1
            if _holders == 0:
                sys.setswitchinterval(USUAL_TURN_S)


async def politely(work: Callable[[], T]) -> T:
    """Run what computes for long on a thread, so that the event loop keeps its turns."""

    def with_short_turns() -> T:
        with short_turns():
            return work()

    return await asyncio.to_thread(with_short_turns)


async def on_own_thread(work: Callable[[], T]) -> T:
    """Run blocking work on a thread of its own.

    Unlike `asyncio.to_thread`, for what may take long or hang: neither the end of the loop nor of the process waits for
    it, and it takes no place in a pool.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def run() -> None:
        try:
            value = work()
        except BaseException as problem:  # noqa: BLE001 - handed to the caller
            told = partial(future.set_exception, problem)
        else:
            told = partial(future.set_result, value)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, told)

    context = contextvars.copy_context()  # so that what the work logs says whose it is
    threading.Thread(target=context.run, args=(run,), name="fabric-work", daemon=True).start()
    return await future


def wait_for(work: Awaitable[T]) -> T:
    """Return what asynchronous work gives, from code that is not; an event loop of this thread is not used."""

    async def value() -> T:
        return await work

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, value()).result()


async def call_function(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call and await a coroutine function; run any other one on a thread of its own.

    Raises:
        StillRunning: the call was cancelled; a thread cannot be ended, so the function goes on.
    """
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    try:
        output = await on_own_thread(lambda: function(*args, **kwargs))
    except asyncio.CancelledError:
        raise StillRunning from None
    return await output if inspect.isawaitable(output) else output  # a lambda or partial around a coroutine
