"""NATS and Redis are not there when processes start: everything works, and each says so once."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.cluster.test_workers import SCRIPT, TTL_S, events_of
from e2e.cluster.world import Member
from e2e.fabric_process import PATIENCE_S, Fabric, settings
from free_ports import free_port
from integration.http.served import TLS, bearer


@pytest.mark.slow
@pytest.mark.proves("SC-8")
async def test_processes_start_and_work_without_nats_and_redis_and_say_so_once(
    tmp_path: Path, database_url: str
) -> None:
    async with ScriptedModel(SCRIPT) as model, AsyncExitStack() as stack:
        config = settings(
            model.base_url,
            store={"url": database_url},
            cluster={"lease_ttl_s": TTL_S},
            nats={"url": f"nats://127.0.0.1:{free_port()}"},
            redis={"url": f"redis://127.0.0.1:{free_port()}"},
            limits={"storage": "redis"},
        )
        fabric = Fabric(tmp_path, config)
        assert (await fabric("db", "migrate")).code == 0
        door = Member("door", fabric, ("serve", "--port", "0", "--no-drive", "--json"))
        worker = Member("worker", fabric, ("worker", "--json"))
        for member in (door, worker):
            stack.push_async_callback(member.aclose)
            await member.start()
        headers = bearer((fabric.root / "token").read_text().strip())
        client = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=door.url, timeout=PATIENCE_S, headers=headers, verify=TLS)
        )
        task = {"prompt": "do it", "pack": "engineering"}
        began = time.time()
        answers = await asyncio.gather(*(client.post("/run", json=task) for _ in range(3)))
        told = [answer.json()["_meta"] for answer in answers]
        assert [each["status"] for each in told] == ["completed"] * 3, told
        asked = [
            next(event["ts"] for event in await events_of(client, each["run_id"]) if event["kind"] == "llm_request")
            for each in told
        ]
        assert min(asked) - began < 15, asked  # at the next poll; with the time that a busy machine takes
        for member in (door, worker):
            assert len(warnings(member, "NATS")) == 1, member.lines
        assert len(warnings(door, "Redis")) <= 1, door.lines  # none, if nobody had to be counted


def warnings(member: Member, about: str) -> list[str]:
    return [line for line in member.lines if '"level":"warning"' in line and about in line]
