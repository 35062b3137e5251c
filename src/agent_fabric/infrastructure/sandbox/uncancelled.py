"""Work that a cancelled caller must not leave half done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T], under_way: set[asyncio.Task[Any]]) -> T:
    """Finish work even if the caller is cancelled. For starting and ending a box: half a box would leak processes.

    `under_way` holds it meanwhile.
    """
    task = asyncio.create_task(work)
    under_way.add(task)
    task.add_done_callback(under_way.discard)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # or it would be logged
        raise
