"""Workflows, agents and models through the typed client, and a workflow shown as if it ran here."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent_fabric.client import FabricClient
from agent_fabric.domain.errors import DefinitionNotFound, InvalidInputs, RunNotFound
from agent_fabric.domain.events import Event, RunWaited
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.domain.workflows.events import StepFinished
from agent_fabric.interfaces.cli.runs.foreground_remote import foreground_there
from integration.http.served import Served, served
from integration.http.test_agents import GREETER, SCRIPT

SMALL = "name: small\nversion: 1.0.0\ninputs: {x: {type: integer, required: true}}\n"
SMALL += "steps: [{id: a, action: transform, inputs: {x: '{{ inputs.x }}'}}]\n"
OUTER = """\
name: outer
version: 1.0.0
steps:
  - {id: agent, action: invoke-agent, agent: greeter, inputs: {name: Ada}}
  - {id: inner, action: workflow, workflow: small, inputs: {x: 3}, depends_on: [agent]}
"""
WAITS = "name: waits\nversion: 1.0.0\nsteps:\n  - {id: wait, action: wait, inputs: {event: go}}\n"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    for name, text in (("small", SMALL), ("outer", OUTER), ("waits", WAITS), ("wrong", "name: wrong\n")):
        path = tmp_path / "workflow-definitions" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "agent-definitions").mkdir()
    (tmp_path / "agent-definitions" / "greeter.yaml").write_text(GREETER)
    async with served(tmp_path, SCRIPT) as server:
        yield server


@pytest.fixture
async def client(server: Served) -> AsyncIterator[FabricClient]:
    async with FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
        yield client


async def test_workflows_are_seen_and_run(client: FabricClient) -> None:
    lines = {line.name: line for line in await client.workflows.list()}
    assert lines["small"].usable
    assert not lines["wrong"].usable
    assert lines["wrong"].problems
    assert (await client.workflows.show("small"))["inputs"]["x"]["required"]
    done = await client.workflows.execute("small", {"x": 7})
    assert done["outputs"] or done["step_results"]
    assert (await client.workflows.run(done["run_id"]))["_meta"]["status"] == "completed"
    with pytest.raises(InvalidInputs):
        await client.workflows.execute("small", {})
    for missing in ("nothing", "..", "a/b", ""):
        with pytest.raises(DefinitionNotFound):
            await client.workflows.show(missing)
        with pytest.raises(RunNotFound):
            await client.workflows.run(missing)


async def test_a_waiting_workflow_goes_on_after_its_signal(client: FabricClient) -> None:
    run_id = await client.workflows.start("waits")
    seen: list[object] = []
    async for each in client.runs.follow(run_id):
        seen.append(each)
        if isinstance(each, Event) and isinstance(each.body, RunWaited):
            await client.workflows.signal(run_id, "go", {"version": "1.2"})
    assert isinstance(seen[-1], RunResult)
    assert seen[-1].status is RunStatus.COMPLETED
    assert await client.workflows.resume(run_id) == run_id
    assert (await client.workflows.cancel(run_id))["_meta"]["status"] == "completed"


async def test_agents_are_seen_and_run(client: FabricClient) -> None:
    (line,) = await client.agents.list()
    assert (line.name, line.usable) == ("greeter", True)
    assert (await client.agents.show("greeter"))["inputs"]["name"]["type"] == "string"
    result = await client.agents.run("greeter", {"name": "Ada"})
    assert result.status is RunStatus.COMPLETED
    with pytest.raises(DefinitionNotFound):
        await client.agents.run("nobody")


async def test_models_and_readiness_are_told(client: FabricClient) -> None:
    quality = next(line for line in await client.models.list() if line.key == "quality")
    assert quality.model == "scripted"
    assert await client.ready()


class Screen:
    """EventSink that remembers."""

    wants_deltas = False

    def __init__(self) -> None:
        self.shown: list[tuple[RunId, Event]] = []

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        self.shown += [(run_id, event) for event in events]

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        raise AssertionError

    def notice(self, run_id: RunId, text: str) -> None:
        pass


@pytest.mark.proves("C15")
async def test_runs_that_work_for_a_workflow_are_shown_with_it_each_before_its_step_ends(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRIC_TOKEN", server.token)
    screen = Screen()
    async with foreground_there(f"http://127.0.0.1:{server.port}")(screen, False) as there:
        result = await there.start(there.client.workflows.start("outer"))
        parent = there.run_id
    assert result.status is RunStatus.COMPLETED
    runs = list(dict.fromkeys(run_id for run_id, _ in screen.shown))
    assert len(runs) == 4  # the agent's first attempt fails
    for run_id in runs:
        shown = [event for each, event in screen.shown if each == run_id]
        assert shown == list(await server.fabric.records.runs.read(run_id))
    ends = [
        at for at, (each, event) in enumerate(screen.shown) if isinstance(event.body, StepFinished) and each == parent
    ]
    last = {run_id: max(at for at, (each, _) in enumerate(screen.shown) if each == run_id) for run_id in runs[1:]}
    assert last[runs[2]] < ends[0]
    assert last[runs[3]] < ends[1]
