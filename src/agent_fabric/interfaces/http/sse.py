"""Server-Sent Events: a run's events under their numbers, then one last frame that says how it ended."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ServerStopping
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.http.errors import InternalError
from agent_fabric.interfaces.http.gate import SHOWN_RUN
from agent_fabric.interfaces.http.runs.live import Feed, LiveRuns, Waiter
from agent_fabric.interfaces.http.views import look_at
from agent_fabric.wire.json_codec import dump_json
from agent_fabric.wire.results import error_object, result_object

CHUNK_BYTES = 16 * 1024
"""Frames are sent together up to this size, and a longer one in pieces of twice this size."""
PING = b": ping\n\n"
DONE, ERROR = "_run_done_", "_run_error_"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reader:
    """One who follows a run: gets everything behind `after`, in order, nothing twice."""

    runs: ServedRuns
    live: LiveRuns
    run_id: RunId
    drive: Drive | None = None
    """Set while the run is driven here."""
    after: int = -1
    """Sequence number of the newest event that the reader has."""
    follow: bool = True
    """Whether to stay until the run has ended."""
    deltas: bool = False
    """Whether to see answers as they are written."""
    full: bool = False
    """Whether to see events whole, however long they are."""
    _waiter: Waiter = field(default_factory=Waiter)
    _gone: bool = False
    _said: int = 0
    """Pieces of answers that have been sent, or missed."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield what is to be sent, until the run has ended or the server stops."""
        try:
            if self.drive is not None:
                self.drive.outcome.add_done_callback(self._wake)
            with self.live.reading(self.run_id, deltas=self.deltas) as feed:
                async with aclosing(self._events(feed)) as events:
                    async for chunk in events:
                        yield chunk
                if not self._gone and (last := await self._last(feed)) is not None:
                    yield last
        except FabricError as problem:
            yield _sentinel(self.run_id, ERROR, error_object(problem, run_id=self.run_id))
        except Exception:  # noqa: BLE001 - the stream has begun: this is the only way left to tell
            _log.exception("The events of run %s could not be sent", self.run_id)
            yield _sentinel(self.run_id, ERROR, error_object(InternalError(), run_id=self.run_id))
        finally:
            if self.drive is not None:
                self.drive.outcome.remove_done_callback(self._wake)

    def leave(self, _: object = None) -> None:
        """End: the client has gone."""
        self._gone = True
        self._waiter.wake()

    async def _events(self, feed: Feed) -> AsyncGenerator[bytes, None]:
        self._said = feed.delta_count
        if feed.tip < 0:
            feed.begin(await self.runs.reader.newest(self.run_id))
        self.after = min(self.after, feed.tip)
        beats, ending = self.live.beats, False
        while not self._gone:
            async with self.live.turns:
                if chunk := await self._more(feed):
                    await asyncio.sleep(0)
            if chunk:
                yield chunk
                del chunk  # until it is sent, the connection alone holds it
            if self._is_behind(feed):
                continue
            if feed.settled or ending or not self.follow:
                return
            if self._has_ended(feed):
                ending = True  # a last look: what ended the run may not have been told here
                feed.add([await self.runs.reader.newest(self.run_id)])
            elif beats != self.live.beats:
                beats = self.live.beats
                yield PING
            elif not self._gone:  # a client that left while we looked would not wake us
                await feed.news(self._waiter)

    async def _more(self, feed: Feed) -> bytes:
        """Return the next frames, from the ring if it reaches back far enough; no more than are sent together."""
        frames = None if self.full else feed.after(self.after, most_bytes=CHUNK_BYTES)
        if frames is None and self.after < feed.tip:
            frames = _first(await self.live.read_stored(self.runs.reader, self.run_id, self.after, full=self.full))
        frames = frames or []
        reached = self.after + len(frames)
        if self.deltas:
            pieces = feed.deltas_after(self._said)
            due = [piece for piece in pieces if piece[0] <= reached]
            self._said = feed.delta_count - (len(pieces) - len(due))
            frames = _merge(frames, self.after, due)
        self.after = reached
        return b"".join(frames)

    def _is_behind(self, feed: Feed) -> bool:
        return self.after < feed.tip or (self.deltas and self._said < feed.delta_count)

    def _has_ended(self, feed: Feed) -> bool:
        """Return whether nothing more is to be expected, although the log does not say so."""
        if self.live.closing:
            return True
        if self.drive is None:
            return feed.stopped
        outcome = self.drive.outcome
        if not outcome.done():
            return False
        if not outcome.cancelled() and outcome.exception() is None and outcome.result().status is RunStatus.WAITING:
            self.drive = None  # another process may continue it
            return False
        return True

    async def _last(self, feed: Feed) -> bytes | None:
        """Return the frame that says how it ended; None if it has not, and we do not follow.

        Raises:
            FabricError: why we do not know.
        """
        outcome = None if self.drive is None else self.drive.outcome
        if outcome is not None and outcome.done() and not outcome.cancelled():
            return self._end_frame(outcome.result())
        if feed.result is None:
            feed.result = asyncio.create_task(self._result())
        try:
            result = await asyncio.shield(feed.result)
        except FabricError:
            feed.result = None
            raise
        if not result.status.settled:
            feed.result = None
            if self.live.closing or (outcome is not None and outcome.cancelled()):
                raise ServerStopping(
                    "The server is stopping; the run continues when it is back",
                    hint=f"Then follow it: GET /runs/{self.run_id}/events with Last-Event-ID {self.after}.",
                )
            if not self.follow:
                return None
        return self._end_frame(result)

    async def _result(self) -> RunResult:
        return (await look_at(self.runs, self.run_id)).result

    def _end_frame(self, result: RunResult) -> bytes:
        kind = DONE if result.status is RunStatus.COMPLETED else ERROR
        return _sentinel(self.run_id, kind, result_object(result, self.runs.run_dir(self.run_id)))

    def _wake(self, _: object) -> None:
        self._waiter.wake()


class RunStream(Response):
    """Sends what becomes of a run. A client that has gone is noticed at once; a slow one holds up no one."""

    media_type = "text/event-stream"

    def __init__(self, run_id: RunId, chunks: AsyncGenerator[bytes, None], leave: Callable[[object], None]) -> None:
        """Take what is to be sent, and what ends it once the client has gone."""
        self.status_code, self.background = 200, None
        self._run_id, self._chunks, self._leave = run_id, chunks, leave
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][SHOWN_RUN] = self._run_id
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        gone.add_done_callback(self._leave)
        try:
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    for start in range(0, len(chunk), 2 * CHUNK_BYTES):
                        piece = chunk[start : start + 2 * CHUNK_BYTES]
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()


def event_stream(reader: Reader) -> Response:
    """Return what sends what a reader gets."""
    stream = RunStream(reader.run_id, reader.chunks(), reader.leave)
    stream.headers["content-location"] = f"/runs/{reader.run_id}/events"
    return stream


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until a client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _sentinel(run_id: RunId, kind: str, payload: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % dump_json({"kind": kind, "run_id": run_id, "payload": payload}).lstrip()


def _first(frames: Sequence[bytes]) -> list[bytes]:
    """Return as many frames as are sent together: one at least."""
    size = 0
    for count, frame in enumerate(frames, 1):
        size += len(frame)
        if size >= CHUNK_BYTES:
            return list(frames[:count])
    return list(frames)


def _merge(frames: list[bytes], after: int, pieces: list[tuple[int, bytes]]) -> list[bytes]:
    """Put pieces of answers behind the events that they followed; what comes too late for that is left out."""
    merged: list[bytes] = []
    for seq, frame in enumerate([b"", *frames], after):
        merged.append(frame)
        merged += [piece for place, piece in pieces if place == seq]
    return merged[1:]
