"""What a turn costs, counted in calls of our own functions: seconds depend on the machine, calls do not.

Whoever needs more raises the number in the same commit and says why.
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import pytest

from mock_model import DONE, Model
from turn_workers import RunOne, open_fabric

MAX_CALLS = 325
"""Of one turn: a question to the model over a socket, its answer, a tool call and its result, and two commits. It was
280 to 288 when this was written, and up to 305 where the disk is slow, since commits then change threads."""
MAX_GROWTH = 1.1
"""Of a turn far into a run, beside one at its beginning; one call for each message that there is would make a third."""
STORE = ("infrastructure.persistence.", "infrastructure.runs.", "infrastructure.audit.", "wire.")
"""What writes events: how many of them share a commit is chance, and none of it sees a conversation."""

_calls: Counter[str] = Counter()


def _note(frame: FrameType, event: str, _: object) -> None:
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("agent_fabric.") and not name.startswith("agent_fabric.testing"):
        _calls[f"{name.removeprefix('agent_fabric.')}:{frame.f_code.co_qualname}"] += 1


@asynccontextmanager
async def engine(folder: Path) -> AsyncIterator[RunOne]:
    """The real engine, store and client, and a model that answers at once; all that is opened once is open."""
    server = await asyncio.get_running_loop().create_server(Model, "127.0.0.1", 0)
    async with server:
        opened = await open_fabric(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", folder)
        try:
            await opened.run("Add. [steps=2]")
            yield opened.run
        finally:
            await opened.close()
            await asyncio.sleep(0.05)  # until the model has seen it


async def calls_of(run: RunOne, steps: int) -> Counter[str]:
    """Return the calls of a run with so many tool calls, on the event loop's thread and on the store's."""
    _calls.clear()
    sys.setprofile(_note)
    try:
        answer = await run(f"Add. [steps={steps}]")
    finally:
        sys.setprofile(None)
    assert answer == DONE
    return Counter(_calls)


async def calls_about_the_conversation(run: RunOne, steps: int) -> int:
    """Return the smallest of three: what looks around now and then makes calls, too, and more on a busy machine."""
    counts = [await calls_of(run, steps) for _ in range(3)]
    return min(sum(many for name, many in each.items() if not name.startswith(STORE)) for each in counts)


@pytest.mark.proves("SP-3")
async def test_a_turn_makes_no_more_calls_than_its_budget(tmp_path: Path) -> None:
    threading.setprofile(_note)  # the store's thread is started below
    try:
        async with engine(tmp_path) as run:
            short, long = await calls_of(run, 5), await calls_of(run, 15)
    finally:
        threading.setprofile(None)
    a_turn = {name: (long[name] - short[name]) / 10 for name in long}
    most = sorted(a_turn.items(), key=lambda each: -each[1])[:20]
    assert sum(a_turn.values()) <= MAX_CALLS, most


@pytest.mark.proves("SP-4")
async def test_a_turn_makes_as_many_calls_far_into_a_run_as_at_its_beginning(tmp_path: Path) -> None:
    async with engine(tmp_path) as run:
        totals = [await calls_about_the_conversation(run, steps) for steps in (5, 15, 65, 75)]
    assert totals[3] - totals[2] <= MAX_GROWTH * (totals[1] - totals[0])
