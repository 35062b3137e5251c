"""One run as a page follows it: its events from a place on, and the answer that is being written."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.page.messages import say_event, say_notice, say_piece
from agent_fabric.interfaces.http.runs.live import Feed, LiveRuns, Waiter
from agent_fabric.interfaces.http.runs.partial_answers import Heard

CHUNK_BYTES = 16 * 1024
Send = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RunFeed:
    """Sends a run to a page. It holds no queue: a page that does not read holds up nobody."""

    live: LiveRuns
    reader: RunReader
    send: Send

    async def follow(self, run_id: RunId, after: int) -> None:
        """Send everything behind a sequence number, in order, nothing twice, until the run has ended.

        Raises:
            RunNotFound, StoreUnavailable: it cannot be read.
        """
        with self.live.reading(run_id, deltas=True) as feed:
            if feed.tip < 0:
                feed.begin(await self.reader.newest(run_id))
            place = min(after, feed.tip)
            waiter, heard, notice = Waiter(), Heard(), b""
            while not self.live.closing:
                if place < feed.tip:
                    async with self.live.turns:
                        frames = await self._frames(feed, place)
                    for frame in frames:
                        await self.send(say_event(frame))
                    place += len(frames)
                elif feed.answers.has_news(heard):
                    for piece in feed.answers.news(heard):
                        await self.send(say_piece(run_id, piece))
                elif notice != feed.notice:
                    notice = feed.notice
                    await self.send(say_notice(notice))
                elif feed.settled:
                    return
                else:
                    await feed.news(waiter)

    async def _frames(self, feed: Feed, place: int) -> list[bytes]:
        frames = feed.after(place, most_bytes=CHUNK_BYTES)
        return await self.live.stored(self.reader, feed.run_id, place) if frames is None else frames
