"""Keeps readers informed about what no event tells them: runs that other processes drive, and that time passes."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agent_fabric.application.ports.wake_ups import WakeUps, log_topic
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.runs.live import RING, Feed, LiveRuns
from agent_fabric.interfaces.http.runs.remote_deltas import RemoteDeltas

POLL_S = 0.3
SHARED_POLL_S = 1.0
"""Where the store is shared, and every look a query."""
BEAT_S = 15.0
GATHER_S = 0.01
"""Readers that come within this time are looked after together."""
LISTENING_S = 0.05
"""Until hints about another log come in."""

_log = logging.getLogger(__name__)


async def watch(runs: ServedRuns, live: LiveRuns, wake_ups: WakeUps) -> None:
    """Manage all readers, for ever."""
    loop = asyncio.get_running_loop()
    poll_s = POLL_S if runs.records.storage.cluster is None else SHARED_POLL_S
    beat_at, poll_at = loop.time() + BEAT_S, loop.time() + poll_s
    grown = GrownLogs(wake_ups)
    if runs.config.nats.url is not None:  # else no other process gives hints
        live.on_reader = grown.wake_soon
    remote = live.remote = RemoteDeltas(wake_ups, runs.dispatch)
    while True:
        hinted = await grown.wait(poll_at - loop.time())
        if loop.time() >= beat_at:
            live.beat()
            beat_at = loop.time() + BEAT_S
        remote.ask_again()
        feeds = live.feeds()
        grown.follow([feed.run_id for feed in feeds if not feed.settled and feed.run_id not in runs.dispatch])
        if loop.time() < poll_at:
            feeds = [feed for feed in feeds if feed.run_id in hinted]
        await _look(runs, [feed for feed in feeds if _is_elsewhere(runs, feed)])
        if loop.time() >= poll_at:
            poll_at = loop.time() + poll_s


def _is_elsewhere(runs: ServedRuns, feed: Feed) -> bool:
    """Tell whether a run may go on elsewhere; the readers of one that is driven here are up to date."""
    return feed.tip >= 0 and not feed.settled and feed.run_id not in runs.dispatch


async def _look(runs: ServedRuns, feeds: Sequence[Feed]) -> None:
    """Bring the readers of runs up to date: one look tells which of them have moved."""
    if not feeds:
        return
    try:
        progress = await runs.reader.progress([feed.run_id for feed in feeds])
    except FabricError:
        return  # the next look may work; a reader that needs the store itself is told
    for feed in feeds:
        found = progress.get(feed.run_id)
        try:
            if found is not None and found.newest > feed.tip:
                feed.add(await runs.reader.page(feed.run_id, after=feed.tip, limit=RING))
            elif found is not None and found.status is RunStatus.INTERRUPTED and _is_elsewhere(runs, feed):
                feed.stop()
        except FabricError:
            continue  # as above
        except Exception:  # noqa: BLE001 - without us, readers would wait for ever
            _log.exception("Run %s could not be looked at", feed.run_id)


class GrownLogs:
    """The logs that have grown elsewhere, as far as hints tell."""

    def __init__(self, wake_ups: WakeUps) -> None:
        self._wake_ups = wake_ups
        self._followed: dict[RunId, Callable[[], None]] = {}
        self._grown: set[RunId] = set()
        self._hinted = asyncio.Event()
        self._waking = False

    def follow(self, run_ids: Collection[RunId]) -> None:
        """Hear of these logs from now on, and of no others."""
        for run_id in self._followed.keys() - set(run_ids):
            self._followed.pop(run_id)()
        for run_id in run_ids:
            if run_id not in self._followed:
                self._followed[run_id] = self._wake_ups.listen(log_topic(run_id), self._hear(run_id))
                # What came before others knew that we listen.
                asyncio.get_running_loop().call_later(LISTENING_S, self._hear(run_id), {})

    def wake_soon(self) -> None:
        """Let `wait` return in a moment: there are new readers, of whose logs nothing is heard yet."""
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_later(GATHER_S, self._wake)

    def _wake(self) -> None:
        self._waking = False
        self._hinted.set()

    async def wait(self, timeout_s: float) -> Collection[RunId]:
        """Return the logs that have grown since the last time; none, if none has within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._hinted.wait()
        except TimeoutError:
            pass
        self._hinted.clear()
        grown, self._grown = self._grown, set()
        return grown

    def _hear(self, run_id: RunId) -> Callable[[Mapping[str, Any]], None]:
        def hear(_: Mapping[str, Any]) -> None:
            self._grown.add(run_id)
            self._hinted.set()

        return hear
