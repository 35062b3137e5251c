"""Pulling the plug on a workflow, again and again, costs nothing but time."""

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.application.ports.runs import SIGNAL
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.store import Store
from e2e.fabric_process import Fabric, settings
from e2e.server_process import Serving, serving
from e2e.workflow_kill_loop import GIVEN, STEPS, Files, answered, command, loop
from effort import SOAK, effort, report

NO_MODEL = "http://127.0.0.1:9/v1"
KILLS = effort(10, 300)


@pytest.mark.slow
@pytest.mark.proves("A33-059", "A33-060")
def test_kills_at_any_moment_repeat_and_lose_no_step_of_a_workflow(tmp_path: Path) -> None:
    assert STEPS == 40
    seed = random.randrange(2**32)
    print(f"seeds {seed} and {seed + 1}")
    folders = [tmp_path / "one", tmp_path / "two"]
    with ThreadPoolExecutor() as pool:
        findings = list(pool.map(lambda folder, seed: loop(folder, KILLS // 2, seed), folders, (seed, seed + 1)))
    for found in findings:
        print(found.text())
        assert found.problems == []
    killed = sum(found.kills for found in findings)
    report("processes of workflows killed", killed)
    assert killed >= KILLS // 2 * 2
    if not SOAK:
        return  # a few kills need not hit every moment
    assert sum(found.asked for found in findings), "no step was ever in doubt"
    assert sum(found.ran_again for found in findings), "no idempotent step was ever under way"
    assert sum(found.retries for found in findings)
    assert any(found.resume_s for found in findings), "no run was ever resumed"


WORKFLOWS = 10
SERVER_KILLS = effort(3, 40)
NAP_S = 6.0
"""Longer than a server keeps a run in memory that only waits."""
BUSY: dict[str, Any] = {
    "name": "busy",
    "version": "1.0.0",
    "inputs": GIVEN,
    "steps": [
        command("a"),
        command("b", "a", idempotent=True),
        {"id": "nap", "action": "wait", "inputs": {"seconds": NAP_S}, "depends_on": ["a"]},
        {"id": "go", "action": "wait", "inputs": {"event": "go"}, "depends_on": ["b"]},
        {
            "id": "call",
            "action": "workflow",
            "workflow": "asking",
            "inputs": {"witness": "{{ inputs.witness }}", "mark": "{{ inputs.mark }}"},
            "depends_on": ["a"],
        },
        command("end", "nap", "go", "call"),
    ],
}
ASKING: dict[str, Any] = {
    "name": "asking",
    "version": "1.0.0",
    "inputs": GIVEN,
    "steps": [
        command("c1"),
        {"id": "ok", "action": "approve", "inputs": {"message": "Go on?"}, "depends_on": ["c1"]},
        command("c2", "ok", idempotent=True),
    ],
}
IDEMPOTENT = {"b", "c2"}
EACH = {"a", "b", "c1", "c2", "end"}


class People:
    """Those who answer and send signals, whether a server is there or not."""

    def __init__(self, files: Files, rng: random.Random) -> None:
        self.files = files
        self.rng = rng
        self.unsent: list[str] = []
        self.in_doubt = 0

    async def act(self, *, everything: bool = False) -> None:
        await answered(self.files, lambda card: self._decide(card, everything=everything))
        sending = [run_id for run_id in self.unsent if everything or self.rng.random() < 0.3]
        if sending:
            store = Store(self.files.database)
            try:
                for run_id in sending:
                    payload = {"name": "go", "data": {}, "by": "a test"}
                    await SqlRunRepository(store, SystemClock()).post(RunId(run_id), SIGNAL, payload)
                    self.unsent.remove(run_id)
            finally:
                store.close()

    def _decide(self, card: ApprovalCard, *, everything: bool) -> Decision | None:
        if not everything and self.rng.random() < 0.6:
            return None
        if card.question is Question.ANSWER:
            return Decision.APPROVE
        self.in_doubt += 1
        lane = card.call_id.rpartition("#")[0]
        root = next(each for each in self.files.runs() if card.run_id in (each, *self.files.below(each)))
        return Decision.DONE if lane in self.files.seen(root) else Decision.APPROVE


async def let_live(server: Serving, files: Files, events: int) -> None:
    """Wait until so many more events are durable, or nothing happens any more."""
    enough, seen, quiet = files.newest_position() + events, -1, 0
    while files.newest_position() < enough and quiet < 200:
        await asyncio.sleep(0.01)
        newest = files.newest_position()
        seen, quiet = newest, quiet + 1 if newest == seen else 0
    assert server.started.process.returncode is None


def unsettled(files: Files) -> list[str]:
    return [
        run_id for run_id in files.runs(whole=False) if files.status(run_id) in {"running", "waiting", "interrupted"}
    ]


def stuck(files: Files) -> list[str]:
    """Return what is known of the runs that do not end."""
    return [
        f"{run_id} is {files.status(run_id)}: "
        + ", ".join(f"{event.seq} {event.kind} {event.lane}" for event in files.events(run_id)[-25:])
        for run_id in unsettled(files)
    ]


async def go_on(server: Serving, files: Files) -> None:
    """Let a person go on with what was taken over too often in vain."""
    for run_id in unsettled(files):
        if files.status(run_id) == "interrupted":
            assert (await server.client.post(f"/api/v1/workflows/runs/{run_id}/resume")).status_code < 300


@pytest.mark.slow
@pytest.mark.proves("A33-059", "A33-142")
async def test_a_server_that_is_killed_again_and_again_finishes_every_workflow_and_nothing_twice(
    tmp_path: Path,
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng, files = random.Random(seed), Files(tmp_path)
    files.write(BUSY, ASKING)
    fabric, people = Fabric(tmp_path, settings(NO_MODEL)).by_us(), People(files, rng)
    async with serving(fabric) as server:
        for _ in range(WORKFLOWS):
            given = {"witness": "witness", "mark": "-"}
            answer = await server.client.post("/api/v1/workflows/busy/execute?wait=false", json=given)
            assert answer.status_code == 202, answer.text
        people.unsent = files.runs()
        assert len(people.unsent) == WORKFLOWS
        await let_live(server, files, rng.randrange(40))
        await server.kill()
    for _ in range(SERVER_KILLS - 1):
        await people.act()
        async with serving(fabric) as server:
            await let_live(server, files, rng.randrange(1, 60))
            await people.act()
            await let_live(server, files, rng.randrange(30))
            await server.kill()
    async with serving(fabric) as server:
        try:
            async with asyncio.timeout(120):
                while unsettled(files):
                    await people.act(everything=True)
                    await go_on(server, files)
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail("\n".join(stuck(files)))
    for run_id in files.runs():
        require_each_once(files, run_id)
    report("servers with ten workflows under way killed", SERVER_KILLS)
    print(f"{SERVER_KILLS} kills, {people.in_doubt} in doubt")


def require_each_once(files: Files, run_id: str) -> None:
    children = files.below(run_id)
    assert [files.status(each) for each in (run_id, *children)] == ["completed"] * 2
    seen = Counter(files.seen(run_id))
    assert set(seen) == EACH
    assert {lane: count for lane, count in seen.items() if lane not in IDEMPOTENT and count != 1} == {}
    for each in (run_id, *children):
        events = files.events(each)
        calls = Counter(event.lane for event in events if event.kind == "tool_call")
        ends = Counter(event.lane for event in events if event.kind == "step_finished")
        assert set(ends.values()) == {1}
        assert all(seen[lane] <= calls[lane] for lane in calls)
        assert [event.lane for event in events if event.kind == "approval_requested"].count("ok") == (each != run_id)
    events = files.events(run_id)
    waited = next(event for event in events if event.kind == "step_waiting" and event.lane == "nap")
    fired = next(event for event in events if event.kind == "timer_fired" and event.lane == "nap")
    assert fired.ts >= waited.ts + NAP_S
    assert [event.kind for event in events].count("signal_received") == 1
