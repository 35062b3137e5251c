"""What a caller asks of a run beside its task, over HTTP, with the client and in schedules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.client import FabricClient
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.testing.scripted_model import Call, Finish
from integration.http.served import SCRIPT, Served, served, task
from integration.http.test_agents import write
from integration.http.test_workflows import define

GREETER = "name: greeter\nprompts: {system: You greet people.}\noutputs: {greeting: string}\n"
GREETS = {"name": "greets", "steps": [{"id": "greet", "action": "invoke-agent", "agent": "greeter"}]}
WRITE = (Call("write_file", {"path": "a.py", "content": "print(1)\n"}), Finish(summary="w"), Finish(summary="w"))
HELLO = (Finish(greeting="Hello!"),) * 3
PRICE = {"input": 1_000_000.0, "output": 1_000_000.0}
SAID = replace(SCRIPT, turns=HELLO, named={**SCRIPT.named, "write": WRITE})


def code_of(answer: Any) -> str:
    body = answer.json()
    return str(body["error"]["code"] if "error" in body else body["code"])


@pytest.mark.proves("AF-124", "AF-058")
async def test_every_door_fails_what_is_not_proven_if_it_is_asked_to(tmp_path: Path) -> None:
    async with served(tmp_path, SAID) as server:
        write(tmp_path, GREETER, "greeter.yaml")
        define(tmp_path, GREETS)
        post = server.client.post
        usual = await post("/run", json=task("write"))
        strict = await post("/run", json={**task("write"), "require_proof": True})
        agent = await post("/api/v1/agents/greeter/run?require_proof=true", json={})
        workflow = await post("/api/v1/workflows/greets/execute?require_proof=true", json={})
        async with FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
            run = await client.run("[[script=write]]", pack="engineering", require_proof=True)
            started = await client.agents.start("greeter", require_proof=True)
            ended = await client.runs.resume(started, wait=True)
    assert usual.json()["_meta"]["status"] == "completed"
    assert [code_of(each) for each in (strict, agent)] == ["result_unproven"] * 2
    assert "its definition asks for no proof" in agent.json()["error"]["message"]
    assert workflow.json()["_meta"]["status"] == "failed", workflow.text
    assert run.error is not None
    assert ended.error is not None
    assert (run.error.code, ended.error.code) == ("result_unproven", "result_unproven")
    assert run.payload["summary"] == "w"


@pytest.mark.proves("C02")
async def test_every_door_limits_what_a_run_costs(tmp_path: Path) -> None:
    async with served(tmp_path, SAID, also={"model": {"price": PRICE}}) as server:
        write(tmp_path, GREETER, "greeter.yaml")
        post = server.client.post
        run = await post("/run", json={**task("write"), "max_cost": 0.5})
        agent = await post("/api/v1/agents/greeter/run?max_cost=0.5", json={})
        refused = [
            (await post("/run", json={**task(), "max_cost": wrong})).status_code for wrong in (0, -1, 1e12, "1", True)
        ]
        async with FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
            result = await client.run("[[script=write]]", pack="engineering", max_cost=0.5)
            shown = await client.runs.show(result.run_id)
        metrics = (await server.client.get("/metrics")).text
    assert code_of(run) == "budget_exhausted"
    assert run.json()["_meta"]["cost"] > 0.5
    assert agent.json()["_meta"]["status"] == "completed"  # its one answer was asked for while nothing was spent
    assert refused == [422] * 5
    assert result.error is not None
    assert result.error.code == "budget_exhausted"
    assert shown.result.cost == result.cost
    assert 'fabric_cost_total{model="' in metrics


@pytest.mark.proves("C02")
async def test_a_limit_without_a_price_is_refused_and_no_cost_is_null(tmp_path: Path) -> None:
    async with served(tmp_path, SAID) as server:
        refused = await server.client.post("/run", json={**task(), "max_cost": 1})
        async with FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
            with pytest.raises(InvalidInputs) as problem:
                await client.run("do it", pack="engineering", max_cost=1.0)
            unpriced = await client.run("[[script=write]]", pack="engineering")
    assert (refused.status_code, code_of(refused)) == (422, "inputs_invalid")
    assert "models.quality.price" in str(problem.value.hint)
    assert unpriced.cost is None


async def test_a_schedule_has_terms_for_its_runs(tmp_path: Path) -> None:
    base = "/api/v1/schedules"
    wish = {"name": "strict", "every": "1h", "task_instruction": "[[script=write]]", "agent_id": "engineering"}
    async with served(tmp_path, SAID, also={"model": {"price": PRICE}}) as server:
        client = server.client
        made = await client.post(base, json={**wish, "require_proof": True})
        limited = await client.post(base, json={**wish, "name": "cheap", "max_cost": 0.5})
        said = {"name": "chat", "every": "1h", "target_kind": "chat", "task_instruction": "hello"}
        chat = await client.post(base, json={**said, "max_cost": 0.5})
        ends = [await _fired(server, name) for name in ("strict", "cheap")]
        changed = await client.patch(f"{base}/strict", json={"require_proof": False})
        cleared = await client.patch(f"{base}/cheap", json={"max_cost": None})
    assert (made.json()["require_proof"], made.json()["max_cost"]) == (True, None)
    assert (limited.json()["require_proof"], limited.json()["max_cost"]) == (False, 0.5)
    assert chat.status_code == 422
    assert ends == ["result_unproven", "budget_exhausted"]
    assert (changed.json()["require_proof"], cleared.json()["max_cost"]) == (False, None)


async def _fired(server: Served, name: str) -> str:
    fired = await server.client.post(f"/api/v1/schedules/{name}/fire", json={})
    async with FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
        result = await client.runs.resume(fired.json()["run_id"], wait=True)
    assert result.error is not None
    return result.error.code
