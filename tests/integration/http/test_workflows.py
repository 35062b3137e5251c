"""Workflows over HTTP: run, looked at, told what has happened, gone on with and ended."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.runs import Progress, RunReader
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.views import look_at
from e2e.workflows.test_workflows import ASKS, CALLS, FAILS, GREET, META, WAITS
from integration.http.served import PATIENCE_S, Served, served

BASE = "/api/v1/workflows"


def define(folder: Path, *definitions: Mapping[str, Any]) -> Path:
    """Put workflows where the server looks for them."""
    files = folder / "workflow-definitions"
    files.mkdir(exist_ok=True)
    for each in definitions:
        (files / f"{each['name']}.json").write_text(json.dumps(each, indent=2))
    return files


async def until_settled(server: Served, run_id: str) -> dict[str, Any]:
    """Wait until a workflow's run has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            shown: dict[str, Any] = (await server.client.get(f"{BASE}/runs/{run_id}")).json()
            if shown["_meta"]["status"] not in {"running", "waiting"}:
                return shown
            await asyncio.sleep(0.05)


@pytest.mark.proves("A33-016", "A33-015")
async def test_executing_a_workflow_takes_the_bare_inputs_and_gives_its_result(tmp_path: Path) -> None:
    define(tmp_path, GREET)
    async with served(tmp_path) as server:
        answer = await server.client.post(f"{BASE}/greet/execute", json={"who": "Ada L"})
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert set(shown) == {
            *("outputs", "steps_executed", "step_results", "duration_ms", "status", "result", "run_id", "_meta")
        }
        assert set(shown["_meta"]) == META
        assert (shown["status"], shown["result"]) == ("success", {"said": "hello Ada L\n"})
        assert shown["steps_executed"] == ["say", "count"]
        again = (await server.client.get(f"{BASE}/runs/{shown['run_id']}")).json()
        assert again == shown
        events = (await server.client.get(f"/runs/{shown['run_id']}/events?limit=1000")).json()["events"]
        assert [each["kind"] for each in events].count("step_finished") == 3


async def test_without_waiting_it_answers_at_once_and_events_stream_as_for_every_run(tmp_path: Path) -> None:
    define(tmp_path, GREET)
    async with served(tmp_path) as server:
        answer = await server.client.post(f"{BASE}/greet/execute?wait=false", json={"who": "Ada"})
        assert answer.status_code == 202
        run_id = answer.json()["run_id"]
        assert answer.headers["location"] == f"{BASE}/runs/{run_id}"
        stream = await server.watch(run_id)
        frames = await stream.frames()
        assert '"_run_done_"' in frames[-1]
        assert sum('"step_started"' in frame for frame in frames) == 2


REFUSED: list[tuple[str, Any, int, str]] = [
    ("nothing", {}, 404, "definition_not_found"),
    ("greet", {}, 422, "inputs_invalid"),
    ("greet", {"who": 3}, 422, "inputs_invalid"),
    ("greet", {"who": "a", "more": 1}, 422, "inputs_invalid"),
    ("greet", [1], 422, "request_invalid"),
    ("greet", {"who": "a", "times": json.loads("[" * 70 + "]" * 70)}, 422, "inputs_invalid"),
    ("broken", {}, 422, "workflow_invalid"),
]


async def test_what_cannot_be_run_is_refused_and_makes_no_run(tmp_path: Path) -> None:
    define(tmp_path, GREET, {"name": "broken", "version": "1.0.0", "steps": [{"id": "a", "action": "nope"}]})
    async with served(tmp_path) as server:
        for name, body, status, code in REFUSED:
            answer = await server.client.post(f"{BASE}/{name}/execute", json=body)
            assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
            if code == "workflow_invalid":
                (error,) = answer.json()["errors"]
                assert error["field"] == "steps[0].action"
                assert "step 'a': there is no action 'nope'" in error["message"]
        assert (await server.client.get("/runs")).json()["runs"] == []


@pytest.mark.proves("A33-041")
async def test_definitions_are_listed_shown_and_read_again_when_they_change(tmp_path: Path) -> None:
    files = define(tmp_path, GREET)
    async with served(tmp_path) as server:
        (line,) = (await server.client.get(BASE)).json()["workflows"]
        assert (line["name"], line["steps"], line["usable"]) == ("greet", 3, True)
        shown = (await server.client.get(f"{BASE}/greet")).json()
        assert shown["inputs"]["who"] == {"type": "string", "description": "", "required": True}
        assert shown["definition"]["steps"][0]["id"] == "say"
        (files / "greet.json").write_text(json.dumps({**GREET, "version": "2.0.0"}))
        (files / "new.yaml").write_text(
            "name: new\nversion: 1.0.0\nsteps: [{id: a, action: transform, inputs: {x: 1}}]"
        )
        listed = (await server.client.get(BASE)).json()["workflows"]
        assert [(each["name"], each["version"]) for each in listed] == [("greet", "2.0.0"), ("new", "1.0.0")]
        ran = (await server.client.post(f"{BASE}/new/execute")).json()
        assert ran["outputs"] == {"a": {"x": 1}}
        assert (await server.client.get(f"{BASE}/nothing")).status_code == 404


@pytest.mark.proves("A33-050", "C35")
async def test_a_waiting_workflow_goes_on_after_a_signal(tmp_path: Path) -> None:
    define(tmp_path, WAITS)
    async with served(tmp_path) as server:
        answer = await server.client.post(f"{BASE}/waits/execute", json={})
        assert (answer.status_code, answer.json()["status"]) == (202, "waiting")
        run_id = answer.json()["run_id"]
        assert answer.json()["_meta"]["waiting_for"] == [{"kind": "signal", "step_id": "hold", "name": "deployed"}]
        signal = f"{BASE}/runs/{run_id}/signal"
        assert (await server.client.post(signal, json={"name": " "})).status_code == 422
        assert (await server.client.post(signal, json={"name": "x", "other": 1})).status_code == 422
        told = await server.client.post(signal, json={"name": "deployed", "data": {"version": "1.2"}})
        assert told.status_code == 200, told.text
        shown = await until_settled(server, run_id)
        assert shown["outputs"]["use"] == {"v": "1.2"}
        late = await server.client.post(signal, json={"name": "deployed"})
        assert (late.status_code, late.json()["code"]) == (409, "run_settled")
        assert late.json()["run_id"] == run_id


@pytest.mark.parametrize("name", ["asks", "calls"])
async def test_a_form_is_filled_in_over_http_also_for_the_run_of_a_step(tmp_path: Path, name: str) -> None:
    define(tmp_path, ASKS, CALLS)
    async with served(tmp_path) as server:
        answer = await server.client.post(f"{BASE}/{name}/execute")
        assert answer.status_code == 202, answer.text
        (approval,) = answer.json()["_meta"]["approvals"]
        question = (await server.client.get(f"/approvals/{approval}")).json()
        assert (question["question"], question["args"]["message"]) == ("answer", "Publish the thing")
        address = f"/approvals/{approval}"
        refused = await server.client.post(address, json={"decision": "approve"})
        assert (refused.status_code, refused.json()["code"]) == (422, "approval_refused")
        wrong = await server.client.post(address, json={"decision": "approve", "args": {"count": "many"}})
        assert wrong.status_code == 422
        done = await server.client.post(address, json={"decision": "approve", "args": {"count": 3}})
        assert done.status_code == 200, done.text
        shown = await until_settled(server, answer.json()["run_id"])
        assert shown["status"] == "success"
        outputs = shown["outputs"]
        assert (outputs["end"] if name == "calls" else outputs["publish"]) == (
            {"n": 4} if name == "calls" else {"channel": "beta", "next": 4}
        )


@pytest.mark.proves("A33-059")
async def test_a_failed_workflow_is_gone_on_with_in_a_new_run(tmp_path: Path) -> None:
    define(tmp_path, FAILS)
    async with served(tmp_path) as server:
        failed = (await server.client.post(f"{BASE}/fails/execute")).json()
        assert (failed["status"], failed["error"]["code"]) == ("failed", "workflow_failed")
        (Path(failed["_meta"]["workspace"]) / "mended").touch()
        resume = f"{BASE}/runs/{failed['run_id']}/resume"
        wrong = await server.client.post(resume, json={"from": "nothing"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "inputs_invalid")
        resumed = await server.client.post(f"{resume}?wait=true")
        assert resumed.status_code == 200, resumed.text
        shown = resumed.json()
        assert (shown["status"], shown["_meta"]["forked_from"]) == ("success", failed["run_id"])
        assert shown["run_id"] != failed["run_id"]
        again = await server.client.post(f"{BASE}/runs/{shown['run_id']}/resume", json={"from": "third"})
        assert (again.status_code, again.json()["_meta"]["forked_from"]) == (202, shown["run_id"])
        settled = await server.client.post(f"{BASE}/runs/{shown['run_id']}/resume")
        assert (settled.status_code, settled.json()["run_id"]) == (200, shown["run_id"])


async def test_a_workflow_is_cancelled_with_the_run_that_works_for_it(tmp_path: Path) -> None:
    define(tmp_path, ASKS, CALLS)
    async with served(tmp_path) as server:
        waiting = (await server.client.post(f"{BASE}/calls/execute")).json()
        (waited,) = waiting["_meta"]["waiting_for"]
        answer = await server.client.post(f"{BASE}/runs/{waiting['run_id']}/cancel", json={"reason": "enough"})
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert (shown["status"], shown["_meta"]["status"]) == ("failed", "cancelled")
        assert {each["status"] for each in shown["step_results"]} <= {"success", "failed", "skipped"}
        assert "was cancelled" in {each["error"] for each in shown["step_results"]}
        assert shown["error"]["code"] == "cancelled"
        assert await server.status(waited["run_id"]) == "cancelled"


async def test_a_run_that_is_no_workflow_is_not_found_here(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        done = (await server.client.post("/run", json={"prompt": "do it", "pack": "engineering"})).json()
        run_id = done["_meta"]["run_id"]
        for method, path in (("GET", ""), ("POST", "/resume"), ("POST", "/cancel")):
            answer = await server.client.request(method, f"{BASE}/runs/{run_id}{path}")
            assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found"), answer.text


@pytest.mark.proves("C35", "C37")
async def test_a_step_starts_after_its_own_dependencies_and_only_parallel_mode_has_barriers(tmp_path: Path) -> None:
    steps = [
        {"id": "quick", "action": "transform", "inputs": {"value": 1}},
        {"id": "slow", "action": "wait", "inputs": {"seconds": 0.3}},
        {"id": "after", "action": "transform", "depends_on": ["quick"], "inputs": {"value": "{{ quick.value + 1 }}"}},
    ]
    modes = {"free": "dependency-aware", "barrier": "parallel"}
    define(
        tmp_path,
        *({"name": name, "steps": steps, "execution": {"mode": mode}} for name, mode in modes.items()),
    )
    seen, given = {}, []
    async with served(tmp_path) as server:
        for name in modes:
            answer = await server.client.post(f"{BASE}/{name}/execute", json={})
            assert answer.status_code == 200, answer.text
            shown = answer.json()
            given.append({result["step_id"]: result["outputs"] for result in shown["step_results"]})
            assert given[-1]["slow"] == {"waited_for": "seconds"}
            events = (await server.client.get(f"/runs/{shown['run_id']}/events?limit=1000")).json()["events"]
            at = {each["payload"]["step_id"]: each for each in events if each["kind"] == "step_finished"}
            seen[name] = at["after"]["seq"] < at["slow"]["seq"]
            started = next(each for each in events if each["kind"] == "step_waiting")
            assert at["slow"]["ts"] - started["ts"] >= 0.3
    assert seen == {"free": True, "barrier": False}
    assert given[0] == given[1]


@dataclass
class EndsMeanwhile:
    """RunReader of a run that ends between a look at its log and one at its status."""

    inner: RunReader
    end: Callable[[], Awaitable[object]]
    ended: bool = False

    async def status(self, run_id: RunId) -> RunStatus:
        if not self.ended:
            self.ended = True
            await self.end()
        return await self.inner.status(run_id)

    async def page(self, run_id: RunId, *, after: int, limit: int, whole: bool = True) -> Sequence[Event]:
        return await self.inner.page(run_id, after=after, limit=limit, whole=whole)

    async def newest(self, run_id: RunId) -> Event:
        return await self.inner.newest(run_id)

    async def progress(self, run_ids: Collection[RunId]) -> Mapping[RunId, Progress]:
        return await self.inner.progress(run_ids)


async def test_the_status_of_a_run_and_its_results_belong_together_while_it_ends(tmp_path: Path) -> None:
    define(tmp_path, WAITS)
    async with served(tmp_path) as server:
        run_id = (await server.client.post(f"{BASE}/waits/execute", json={})).json()["run_id"]

        async def end() -> None:
            await server.client.post(f"{BASE}/runs/{run_id}/signal", json={"name": "deployed", "data": {"version": 1}})
            await until_settled(server, run_id)

        runs = replace(server.fabric.runs, reader=EndsMeanwhile(server.fabric.runs.reader, end))
        standing = await look_at(runs, RunId(run_id))
        assert standing.status is standing.state.status is RunStatus.COMPLETED
        assert (await look_at(runs, RunId(run_id))).result.status is RunStatus.COMPLETED
