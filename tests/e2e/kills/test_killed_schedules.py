"""A server is killed in the middle of a scheduled step: the schedule says that it waits, or does as it was told."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving

BASE = "/api/v1/schedules"
PATIENCE_S = 60.0
CUT_OFF = """name: {name}
steps:
  - {{id: long, action: run-command, {more}command: [sh, -c, 'echo begun >> {name}.witness; sleep 1.5']}}
"""


async def until(look: Any) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.05)


class World:
    """A folder with workflows whose step takes a while, and a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fabric = Fabric(folder, settings("http://127.0.0.1:9/v1"))

    def begun(self, name: str) -> int:
        """Return how often the step of a workflow has begun."""
        found = (self.fabric.root / "runs").glob(f"*/workspace/{name}.witness")
        return sum(len(each.read_text().splitlines()) for each in found)

    async def until_begun(self, count: int, *names: str) -> None:
        async def have() -> bool:
            return all(self.begun(name) >= count for name in names)

        await until(have)

    def write(self, name: str, more: str = "") -> None:
        place = self.folder / "workflow-definitions"
        place.mkdir(exist_ok=True)
        (place / f"{name}.yaml").write_text(CUT_OFF.format(name=name, more=more))

    async def add(self, hub: Serving, name: str, on_doubt: str) -> Any:
        wish = {"name": name, "every": "2s", "target_kind": "workflow", "target": name, "on_doubt": on_doubt}
        return await hub.client.post(BASE, json=wish)


@pytest.mark.proves("WB-12", "AU-13")
async def test_after_a_kill_a_schedule_waits_and_says_so_or_does_what_it_was_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write("asks")
    world.write("skips")
    world.write("retries", "idempotent: true, ")
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(serving(world.fabric))
        for name, on_doubt in (("asks", "ask"), ("skips", "skip"), ("retries", "retry")):
            made = await world.add(hub, name, on_doubt)
            assert (made.status_code, made.json().get("on_doubt")) == (201, on_doubt), made.text
        refused = await hub.client.patch(f"{BASE}/asks", json={"on_doubt": "retry"})
        assert (refused.status_code, "long" in refused.text) == (422, True), refused.text
        await world.until_begun(1, "asks", "skips", "retries")
        await hub.kill()
        hub = await stack.enter_async_context(serving(world.fabric, "--port", str(hub.port)))

        async def asks() -> Any:
            return (await hub.client.get(f"{BASE}/asks")).json()["waits"]

        waits = await until(asks)

        async def has_skipped() -> Any:
            found = (await hub.client.get(f"{BASE}/asks/firings")).json()["firings"]
            return next(
                (each for each in found if each["reason"] == "overlap" and each["due_at"] > waits["since"]), None
            )

        skipped = await until(has_skipped)
        why = (await hub.client.get(f"{BASE}/asks/why", params={"at": skipped["due_at"]})).json()
        there = replace(world.fabric, server=hub.url)
        told, listed = await there("schedules", "why", "asks"), await there("schedules", "list")

        async def has_alerted() -> bool:
            alerts = (await hub.client.get("/api/v1/alerts")).json()["alerts"]
            return "firing" in {each["status"] for each in alerts if each["name"] == "schedule-waits"}

        await until(has_alerted)
        await world.until_begun(4, "skips", "retries")
        first = (await hub.client.get(f"{BASE}/skips/firings", params={"limit": 100})).json()["firings"][-1]
        cut_off = (await hub.client.get(f"/runs/{first['run_id']}")).json()
        answered = await there("approvals", "done", waits["approval_id"])

        await world.until_begun(2, "asks")
        assert (await hub.client.get(f"{BASE}/asks")).json()["waits"] is None
        later = (await hub.client.get(f"{BASE}/asks/why", params={"at": skipped["due_at"]})).json()
    assert (why["answer"], why["reason"], why["approval_id"]) == ("skipped", "overlap", waits["approval_id"])
    assert why["waits_since"] == waits["since"]
    answer = f"fabric approvals show {waits['approval_id']}"
    assert f"Run {waits['run_id']} waits for a person since" in why["text"]
    assert answer in why["text"]
    assert (told.code, answer in told.out) == (0, True), told.out + told.err
    assert f": {answer}\n" in listed.out
    assert listed.out.count("waits for a person since") == 1
    assert "may have happened" in str(cut_off), cut_off
    assert answered.code == 0, answered.err
    assert "waited for a person from" in later["text"]
