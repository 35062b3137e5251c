"""Keeps readers informed about what nobody tells them: runs that other processes drive, and that time passes."""

import asyncio
import logging

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.live import RING, Feed, LiveRuns

POLL_S = 0.3
BEAT_S = 15.0

_log = logging.getLogger(__name__)


async def watch(fabric: ServerFabric, live: LiveRuns) -> None:
    """Manage all readers, for ever."""
    loop = asyncio.get_running_loop()
    beat_at = loop.time() + BEAT_S
    while True:
        await asyncio.sleep(POLL_S)
        if loop.time() >= beat_at:
            live.beat()
            beat_at = loop.time() + BEAT_S
        for feed in live.feeds():
            try:
                await _look(fabric, feed)
            except FabricError:
                continue  # the next look may work; a reader that needs the store itself is told
            except Exception:  # noqa: BLE001 - without us, readers would wait for ever
                _log.exception("Run %s could not be looked at", feed.run_id)


async def _look(fabric: ServerFabric, feed: Feed) -> None:
    """Bring a run's readers up to date, unless it is driven here: then they are."""
    if feed.tip < 0 or feed.settled or feed.run_id in fabric.dispatch:
        return
    status = await fabric.reader.status(feed.run_id)
    events = await fabric.reader.page(feed.run_id, after=feed.tip, limit=RING)
    if events:
        feed.add(events)
    elif status is RunStatus.INTERRUPTED and feed.run_id not in fabric.dispatch:
        feed.stop()
