"""PostgreSQL is killed while it commits: whether that happened is found out by the hash; nothing is lost or twice."""

import asyncio
import hashlib
import random
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.events import ToolCallRecovered
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.postgres.errors import Unreachable
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from agent_fabric.infrastructure.persistence.runs.event_rows import chain_hash
from contract.run_repository_contract import CREATED, RUN, log
from cutting_proxy import APPEND, COMMIT, run_proxy
from effort import effort, report
from integration.persistence.postgres_storage import open_tables
from postgres_cluster import Cluster

CRASHES = effort(3, 100)
CREATE_EVERY = 4
"""Every so many times a run is created, in a transaction of several statements; else an event is appended."""


def chain_of(postgres: Cluster, url: str, run_id: RunId) -> int:
    """Check the log of a run, and return how many events it has."""
    query = (
        "SELECT seq, ts, kind, version, lane, step, payload, hash FROM events JOIN runs ON number = run"
        f" WHERE run_id = '{run_id}' ORDER BY seq"
    )
    rows, head = postgres.execute(query, url), hashlib.sha256(run_id.encode()).digest()
    for expected, (seq, ts, kind, version, lane, step, payload, stored) in enumerate(rows):
        head = chain_hash(head, seq, ts, kind, version, lane, step, bytes(payload))
        assert (seq, head) == (expected, bytes(stored)), f"the chain of {run_id} is broken at event {seq}"
    return len(rows)


async def repeated(write: Callable[[], Awaitable[Any]]) -> Any:
    """Write, again if the answer is that nothing happened: the crash came before the commit."""
    while True:
        try:
            return await write()
        except Unreachable:
            await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.proves("SC-7")
async def test_a_commit_during_which_postgresql_dies_is_settled_by_its_hash(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    postgres, seed = own_cluster, random.randrange(2**32)
    print(f"seed {seed}")
    rng, url = random.Random(seed), postgres.create_database()
    migrate(url)
    with run_proxy(postgres.port) as proxy:
        said = Introduction(name="one", lease_ttl_s=60)
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        tables = open_tables(through, tmp_path, SystemClock(), introduction=said)
        try:
            held, appended, created = await tables.runs.create(RUN, CREATED), 1, [RUN]
            for number in range(CRASHES):
                crashed, after_s = threading.Event(), rng.uniform(0, 0.004)

                def crash(crashed: threading.Event = crashed, after_s: float = after_s) -> None:
                    time.sleep(after_s)
                    postgres.crash()
                    crashed.set()

                is_new = number % CREATE_EVERY == CREATE_EVERY - 1
                proxy.on_sent = COMMIT if is_new else APPEND, crash
                if is_new:
                    created.append(RunId(f"run-{number}"))
                    writing = asyncio.ensure_future(repeated(partial(tables.runs.create, created[-1], CREATED)))
                else:
                    next_event = log(ToolCallRecovered(tools=(), model=f"{number}"), first=appended)
                    writing = asyncio.ensure_future(repeated(partial(held.append, next_event)))
                    appended += 1
                assert await asyncio.to_thread(crashed.wait, 30)
                await asyncio.to_thread(postgres.start)
                made = await asyncio.wait_for(writing, 30)
                if made is not None:
                    await made.release()
            assert chain_of(postgres, url, RUN) == appended
            assert [chain_of(postgres, url, run_id) for run_id in created[1:]] == [1] * (len(created) - 1)
            await held.append(log(ToolCallRecovered(tools=(), model="the last"), first=appended))
        finally:
            tables.close()
    report("crashes of PostgreSQL during a commit", CRASHES)
