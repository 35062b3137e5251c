"""Servers that are killed at any moment: each instant, each delivery has one run, and a witness saw its step once."""

import asyncio
import hmac
import json
import random
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.domain.automation.firing import run_of_firing
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from agent_fabric.testing.scripted_model import Say, ScriptedModel
from e2e.cluster.world import Member
from e2e.fabric_process import Fabric, settings
from effort import effort, report
from integration.http.served import TLS, bearer
from postgres_cluster import run_cluster

BASE = "/api/v1/schedules"
BATCH = 6
"""Schedules that are due at the same instant; a server is killed around it."""
DELIVERIES = 3
"""That somebody sends around the same instant, again and again until they are accepted."""
SECRET = "the sender and the server know it 4711"
PATIENCE_S = 60.0
TAKER = """name: taker
triggers: {webhook: code}
inputs: {payload: {type: object, required: true}}
steps:
  - {id: leave, action: run-command, command: [sh, -c, 'echo done >> witness']}
"""
WORKFLOW = """name: job
steps:
  - {id: leave, action: run-command, command: [sh, -c, 'echo done >> witness']}
"""


@dataclass
class Loop:
    """Servers that are killed and come back, and the schedules that they were given."""

    fabric: Fabric
    servers: list[Member]
    chance: random.Random
    names: dict[str, float] = field(default_factory=dict)
    """Each schedule with its only instant."""
    late: set[str] = field(default_factory=set)
    """Runs of schedules that may have been added too late to be due."""
    delivered: dict[int, str] = field(default_factory=dict)
    """What was delivered, each with its run."""

    async def request(self, method: str, path: str, **more: Any) -> Any:
        """Ask whoever is there, until somebody answers."""
        own = more.pop("headers", {})
        async with asyncio.timeout(PATIENCE_S):
            while True:
                url = self.chance.choice(self.servers).url
                headers = {**bearer((self.fabric.root / "token").read_text().strip()), **own}
                try:
                    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=20.0, verify=TLS) as client:
                        answer = await client.request(method, path, **more)
                except httpx2.HTTPError:
                    await asyncio.sleep(0.05)
                    continue
                if answer.status_code < 500:
                    return answer

    async def plan(self, number: int) -> float:
        """Add schedules that are due once, all at the same instant; return it."""
        lead_s = 1.5
        while True:
            due = round(time.time() + lead_s, 3)
            names = [f"job-{number}-{int(lead_s)}-{nth}" for nth in range(BATCH)]
            await asyncio.gather(*(self._add(name, due) for name in names))
            if time.time() < due:
                self.names |= dict.fromkeys(names, due)
                return due
            self.late |= {run_of_firing(name, due) for name in names}
            lead_s *= 2  # a busy machine: some were added too late, and are never due

    async def _add(self, name: str, due: float) -> None:
        wish = {"name": name, "every": 86_400, "starts_at": due, "ends_at": due + 1}
        made = await self.request("POST", BASE, json={**wish, "target_kind": "workflow", "target": "job"})
        assert made.status_code in (201, 409), made.text  # 409: added by one who died before it said so

    async def kill_around(self, due: float) -> None:
        victim = self.chance.choice(self.servers)
        await asyncio.sleep(max(0.0, due + self.chance.uniform(-0.05, 0.6) - time.time()))
        await victim.end()
        await victim.start()

    async def deliver_around(self, due: float) -> None:
        """Send deliveries, as a sender does: again, until they are accepted."""
        await asyncio.sleep(max(0.0, due + self.chance.uniform(-0.05, 0.5) - time.time()))
        await asyncio.gather(*(self._deliver(len(self.delivered) + nth) for nth in range(DELIVERIES)))

    async def _deliver(self, number: int) -> None:
        body = json.dumps({"number": number}).encode()
        signed = {"X-Signature-256": hmac.digest(SECRET.encode(), body, "sha256").hex()}
        headers = {"Content-Type": "application/json", **signed}
        taken = await self.request("POST", "/api/v1/webhooks/code", content=body, headers=headers)
        assert taken.status_code == 202, taken.text
        again = await self.request("POST", "/api/v1/webhooks/code", content=body, headers=headers)
        assert (again.json()["run_id"], again.json()["repeated"]) == (taken.json()["run_id"], True)
        self.delivered[number] = taken.json()["run_id"]

    async def require_once(self) -> int:
        """Check that every instant was fired once; return how many runs a person has to look at."""
        in_doubt, runs = 0, set[str]()
        for name, due in self.names.items():
            fired = await self._fired(name)
            assert fired["due_at"] == due
            runs.add(fired["run_id"])
            in_doubt += await self._require_seen_once(fired["run_id"])
            why = (await self.request("GET", f"{BASE}/{name}/why", params={"at": str(due)})).json()
            assert (why["answer"], why["run_id"]) == ("fired", fired["run_id"])
        assert len(runs) == len(self.names)
        for run_id in self.delivered.values():
            in_doubt += await self._require_seen_once(run_id)
        runs |= set(self.delivered.values())
        assert len(runs) == len(self.names) + len(self.delivered)
        assert {path.name for path in self.fabric.run_dirs()} - self.late == runs
        return in_doubt

    async def _require_seen_once(self, run_id: str) -> bool:
        """Check what the witness of a run saw; return whether a person decides if its step is to be done again."""
        status = await self._ended(run_id)
        left = self.fabric.root / "runs" / run_id / "workspace" / "witness"
        seen = left.read_text().count("done") if left.exists() else 0
        assert (status, seen) in (("completed", 1), ("waiting", 0), ("waiting", 1), ("given up", 0)), run_id
        return status != "completed"

    async def _fired(self, name: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                rows = (await self.request("GET", f"{BASE}/{name}/firings")).json()["firings"]
                if rows:
                    (row,) = rows
                    assert row["status"] == "fired", row
                    found: dict[str, Any] = row
                    return found
                await asyncio.sleep(0.1)

    async def _ended(self, run_id: str) -> str:
        status, until = "", time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            status = str((await self.request("GET", f"/runs/{run_id}/status")).json().get("status"))
            if status in ("completed", "failed", "cancelled", "waiting"):
                return status
            last = (await self.request("GET", f"/runs/{run_id}/events")).json()["events"][-1]
            if last["kind"] == "run_interrupted" and "times without any progress" in last["payload"]["reason"]:
                return "given up"  # its driver was killed again and again, before it could do anything
            await asyncio.sleep(0.1)
        raise AssertionError(f"run {run_id} is still {status}: {last}")


async def kill_servers(folder: Path, count: int, kills: int, **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "workflow-definitions").mkdir()
    (folder / "workflow-definitions" / "job.yaml").write_text(WORKFLOW)
    async with ScriptedModel(lambda _request, _nth: Say("nothing")) as model, AsyncExitStack() as stack:
        (folder / "workflow-definitions" / "taker.yaml").write_text(TAKER)
        hook = {"code": {"scheme": "hmac-sha256", "secret": "env:HOOK_SECRET"}}
        fabric = Fabric(folder, settings(model.base_url, webhooks=hook, **more), environment={"HOOK_SECRET": SECRET})
        servers = [Member(str(nth), fabric, ("serve", "--port", "0", "--json")) for nth in range(count)]
        for each in servers:
            stack.push_async_callback(each.aclose)
            await each.start()
        loop = Loop(fabric, servers, random.Random(19))
        for number in range(kills):
            due = await loop.plan(number)
            await asyncio.gather(loop.kill_around(due), loop.deliver_around(due))
        in_doubt = await loop.require_once()
        assert in_doubt < len(loop.names) + len(loop.delivered)
        assert [line for each in servers for line in each.accidents] == []
    where = "SQLite" if count == 1 else "PostgreSQL"
    report(f"kills of servers around firings, {where}", kills)
    report(f"instants that were fired once, {where}", len(loop.names))
    report(f"deliveries of webhooks that were taken once, {where}", len(loop.delivered))
    report(f"runs of those that wait for a person, {where}", in_doubt)


@pytest.fixture
def database_url() -> Iterator[str]:
    with run_cluster() as running:
        url = running.create_database()
        migrate(url)
        yield url


@pytest.mark.slow
@pytest.mark.sqlite
@pytest.mark.proves("AU-5", "AU-10")
async def test_a_server_that_is_killed_around_firings_fires_each_once(tmp_path: Path) -> None:
    await kill_servers(tmp_path, 1, effort(2, 60))


@pytest.mark.slow
@pytest.mark.proves("AU-5", "AU-10")
async def test_two_servers_on_one_database_that_are_killed_around_firings_fire_each_once(
    tmp_path: Path, database_url: str
) -> None:
    more = {"store": {"url": database_url, "pool": 4}, "cluster": {"lease_ttl_s": 3.0, "sweep_s": 0.5}}
    await kill_servers(tmp_path, 2, effort(1, 40), **more)
