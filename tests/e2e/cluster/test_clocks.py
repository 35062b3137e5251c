"""Machines whose clocks are wrong by minutes share runs: nothing is taken over, expires or fires too early."""

import asyncio
import json
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Script, ScriptedModel, Slow
from e2e.cluster.test_workers import DONE, TTL_S, cluster_of, events_of, status, until
from e2e.cluster.world import Member
from e2e.fabric_process import PATIENCE_S, Fabric
from e2e.server_process import serving
from services import need, need_program

TIMER_S = 7
"""Longer than a run stays in memory, so that anybody may find that its time has come."""
SLOW = Script(turns=(Slow(DONE, TTL_S + 2), DONE, DONE))
"""Without commands: the library that fakes the time breaks boxes now and then."""
WORKFLOW = {
    "name": "later",
    "version": "1.0.0",
    "steps": [
        {"id": "pause", "action": "wait", "inputs": {"seconds": TIMER_S}},
        {"id": "greet", "action": "transform", "inputs": {"said": "hello"}, "depends_on": ["pause"]},
    ],
}


def with_clock(fabric: Fabric, offset: str) -> Fabric:
    """Return the same command on a machine whose clock is wrong."""
    need_program("faketime", "faketime")
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    need(library, "needs libfaketime")
    environment = {"LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return Fabric(fabric.folder, fabric.configured, environment=environment, fresh=True)


@pytest.mark.slow
@pytest.mark.proves("SC-9")
async def test_wrong_clocks_take_nothing_over_and_let_nothing_expire_too_early(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "later.json").write_text(json.dumps(WORKFLOW))
    async with ScriptedModel(SLOW) as model, AsyncExitStack() as stack:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        door = await stack.enter_async_context(serving(fabric, "--no-drive"))
        workers = []
        for offset in ("+5m", "-5m"):
            worker = Member(offset, with_clock(fabric, offset), ("worker", "--json"))
            stack.push_async_callback(worker.aclose)
            await worker.start()
            workers.append(worker)
        task = {"prompt": "do it", "pack": "engineering"}
        began = time.time()
        answers = await asyncio.gather(
            *(door.client.post("/run", json=task) for _ in range(2)),
            door.client.post("/api/v1/workflows/later/execute", json={}),
        )
        took = time.time() - began
        told = [answer.json()["_meta"] for answer in answers]
        assert [each["status"] for each in told] == ["completed"] * 2 + ["waiting"], told
        for each in told[:2]:
            kinds = [event["kind"] for event in await events_of(door.client, each["run_id"])]
            assert "run_resumed" not in kinds, "somebody has taken it over"
        assert took > TTL_S, "long enough for a takeover"
        await until(partial(completed, door.client, told[2]["run_id"]), "the timer fires")
        await the_timer_fired_in_time(door.client, told[2]["run_id"])
        assert {member["id"] for member in (await status(fabric))["workers"]} >= {
            worker.told["worker_id"] for worker in workers
        }, "nobody has lost a lease"
        for worker in workers:
            await until(partial(warned, worker), "a warning about its clock")


async def completed(client: Any, run_id: str) -> bool:
    return bool((await client.get(f"/runs/{run_id}/status")).json()["status"] == "completed")


async def warned(worker: Member) -> bool:
    return any("clock of this machine differs" in line and ("300." in line or "299." in line) for line in worker.lines)


async def the_timer_fired_in_time(client: Any, run_id: str) -> None:
    """Check by the log, whose times are those of the drivers as the database corrects them."""
    events = await events_of(client, run_id)
    at = {event["kind"]: event["ts"] for event in events}
    assert abs(at["run_created"] - time.time()) < PATIENCE_S
    assert max(at.values()) - at["run_created"] >= TIMER_S, at
