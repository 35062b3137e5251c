"""Runs as they happen at a server, whatever becomes of the connection."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import aiohttp

from agent_fabric.client.errors import AnswerUnusable, ServerTimedOut, ServerUnreachable
from agent_fabric.client.problems import error_from
from agent_fabric.client.transport import Broken, Query, Transport
from agent_fabric.client.wire import event_from, json_value
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ServerStopping
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.wire.results import result_from


class Frame(NamedTuple):
    """One event of a stream."""

    name: str
    """What kind it is; empty: not said."""
    last_id: str | None
    data: str


async def frames(content: aiohttp.StreamReader) -> AsyncIterator[Frame]:
    """Yield each whole frame; one that was cut off by the end of the stream is dropped, as the standard has it."""
    name, last_id, data = "", None, list[str]()
    begun: list[bytes] = []
    """Pieces of a line whose end has not come yet."""
    async for piece in content.iter_any():
        begun.append(piece)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(begun).split(b"\n")
        begun = [rest]
        for raw in lines:
            line = raw.removesuffix(b"\r").decode("utf-8", "replace")
            if not line:
                if data:
                    yield Frame(name, last_id, "\n".join(data))
                name, last_id, data = "", None, []
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "data":
                    data.append(value)
                case "event":
                    name = value
                case "id":
                    last_id = value
                case _:
                    pass  # a comment, such as a sign of life


PATIENCE_S: Final = 60.0
"""How long a server may be away, for example while it is started anew, before a follower of a run gives up."""
PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 3.0
_QUIET_S: Final = 5.0
"""A connection that lasted longer was one, also if nothing happened meanwhile."""
_SAID_AFTER_S: Final = 1.0
"""How long a server may be away before a person is told."""
_DONE, _ERROR = "_run_done_", "_run_error_"


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer, as the model writes it. Shown, never kept: the whole answer is an event."""

    lane: LaneId
    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What happens beside a run at this moment, for people."""

    text: str
    progress: bool = False
    """Whether it says how far something is, so that the next one takes its place."""


Happening = Event | Delta | Notice | RunResult
"""What a stream gives. The result is the last: there is no more to come."""


class Follower:
    """One who follows a run: gets every event behind `after` once, in order, also when the connection breaks.

    Pieces of answers are not repeated: some are lost with a connection.
    """

    def __init__(self, transport: Transport, path: str, *, after: int, deltas: bool, patience_s: float) -> None:
        self._transport = transport
        self._path = path
        self._deltas = deltas
        self._patience_s = patience_s
        self.after = after
        """Sequence number of the newest event that was given."""
        self._opened_at = math.inf
        """When the server answered that the stream begins; infinity: it has not."""

    async def happenings(self) -> AsyncGenerator[Happening, None]:
        """Yield what happens, and at last the result.

        Raises:
            FabricError: what the server said, or why it said nothing for too long.
        """
        loop = asyncio.get_running_loop()
        away_since, connected, pause_s = loop.time(), False, PAUSE_S
        while True:
            self._opened_at, was_there = math.inf, False
            try:
                async with aclosing(self._connection()) as happenings:
                    async for each in happenings:
                        connected = was_there = True
                        yield each
                        if isinstance(each, RunResult):
                            return
                broken: FabricError = ServerUnreachable(
                    f"{self._transport.address} ended the stream",
                    hint="See how the run stands with `fabric logs list`.",
                )
            except (ServerUnreachable, ServerTimedOut, ServerStopping) as problem:
                broken = problem
                if not connected and not isinstance(problem, ServerStopping | Broken):
                    raise  # it never worked: there is nothing to wait for
            now = loop.time()
            if was_there or now - self._opened_at > _QUIET_S:  # patience begins now, however quiet the run was before
                away_since, pause_s = now, PAUSE_S
            if now - away_since > self._patience_s:
                raise broken
            if now - away_since > _SAID_AFTER_S:
                where = self._transport.address
                yield Notice(f"waiting for {where}, which does not answer … {now - away_since:.0f} s", progress=True)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _connection(self) -> AsyncGenerator[Happening, None]:
        """Yield what one connection brings."""
        query: Query = {"full": True, "deltas": self._deltas or None}
        headers = {"Last-Event-ID": str(self.after)} if self.after >= 0 else {}
        async with self._transport.stream(self._path, query, headers) as content:
            self._opened_at = asyncio.get_running_loop().time()
            async for frame in frames(content):
                happening = self._understood_happening(frame)
                if isinstance(happening, Event):
                    if happening.seq <= self.after:
                        continue
                    self.after = happening.seq
                if happening is not None:
                    yield happening

    def _understood_happening(self, frame: Frame) -> Happening | None:
        try:
            return self._happening(frame.name, json_value(frame.data))
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise AnswerUnusable(
                f"An event from {self._transport.address} is not understood: {problem}",
                hint="Use the same version of agent-fabric on both sides.",
            ) from problem

    def _happening(self, name: str, told: Any) -> Happening | None:
        match name:
            case "delta":
                return Delta(LaneId(told["lane"]), told["text"])
            case "notice":
                return Notice(told["text"], progress=told.get("progress") is True)
            case "":
                pass
            case _:
                return None  # of a newer server
        if told["kind"] not in {_DONE, _ERROR}:
            return event_from(told)
        shown = told["payload"]
        if shown["_meta"].get("status") is None:  # not how the run ended, but why it is not known
            raise error_from(shown["error"])
        return result_from(shown)
