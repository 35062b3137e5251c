"""Agents over HTTP: a change of a file counts at once."""

from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Finish, Script, Status, Turn
from integration.http.served import served

GREETER = """\
name: greeter
description: Greets people.
inputs:
  name: {type: string, required: true}
outputs:
  greeting: string
prompts:
  system: You greet people.
  user: "Greet {{ inputs.name }}."
constraints: {retries: 1}
"""
SCRIPT = Script(turns=(Turn(Finish(greeting="Hello!"), (Status(400),)),))


def write(tmp_path: Path, text: str = GREETER, name: str = "greeter.yaml") -> Path:
    folder = tmp_path / "agent-definitions"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.proves("A33-023")
async def test_agents_are_listed_and_a_changed_file_counts_at_once(tmp_path: Path) -> None:
    write(tmp_path)
    async with served(tmp_path, SCRIPT) as server:
        first = (await server.client.get("/api/v1/agents")).json()
        assert [(each["name"], each["usable"]) for each in first["agents"]] == [("greeter", True)]
        write(tmp_path, GREETER.replace("Greets people", "Greets everybody"))
        shown = (await server.client.get("/api/v1/agents/greeter")).json()
        assert shown["description"] == "Greets everybody."
        assert shown["inputs"]["name"]["required"] is True
        write(tmp_path, "name: other\nrole: x\n", "other.yaml")
        second = (await server.client.get("/api/v1/agents")).json()
        assert [each["line"] for each in second["agents"][1]["problems"]] == [1, 2]
        missing = await server.client.get("/api/v1/agents/greter")
        assert (missing.status_code, missing.json()["code"]) == (404, "definition_not_found")


async def test_an_agent_is_run_with_the_bare_inputs_and_tried_again(tmp_path: Path) -> None:
    write(tmp_path)
    async with served(tmp_path, SCRIPT) as server:
        answer = await server.client.post("/api/v1/agents/greeter/run", json={"name": "Ada"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["greeting"] == "Hello!"
        assert len((await server.client.get("/runs")).json()["runs"]) == 2
        write(tmp_path, GREETER.replace("  user:", "  usr:"))
        broken = await server.client.post("/api/v1/agents/greeter/run", json={"name": "Ada"})
        assert (broken.status_code, broken.json()["code"]) == (422, "agent_invalid")
        assert "prompts.usr" in broken.json()["detail"]


@pytest.mark.parametrize("body", [{}, {"name": 3}, {"name": "Ada", "more": 1}])
async def test_wrong_inputs_are_refused_and_no_run_is_made(tmp_path: Path, body: object) -> None:
    write(tmp_path)
    async with served(tmp_path, SCRIPT) as server:
        answer = await server.client.post("/api/v1/agents/greeter/run", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "inputs_invalid")
        assert (await server.client.get("/runs")).json()["runs"] == []


async def test_a_body_that_is_no_object_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    async with served(tmp_path, SCRIPT) as server:
        answer = await server.client.post("/api/v1/agents/greeter/run", json=[1])
        assert answer.status_code == 422


@pytest.mark.proves("A33-074", "ME-15")
async def test_the_same_question_is_answered_from_the_log_where_that_is_switched_on(tmp_path: Path) -> None:
    write(tmp_path, GREETER.replace("constraints: {retries: 1}\n", ""))
    also = {"model": {"temperature": 0.0}, "cache": {"responses": True}}
    asked: list[Any] = []

    def answer(request: dict[str, Any], _: int) -> Answer:
        asked.append(request)
        return Finish(greeting=f"Hello {len(asked)}!")

    async with served(tmp_path, answer, also=also) as server:
        said = []
        for name in ("Ada", "Ada", "Bob"):
            done = await server.client.post("/api/v1/agents/greeter/run", json={"name": name})
            said.append((done.json()["greeting"], done.json()["_meta"]["run_id"]))
        assert [greeting for greeting, _ in said] == ["Hello 1!", "Hello 1!", "Hello 2!"]
        assert len(asked) == 2
        events = (await server.client.get(f"/runs/{said[1][1]}/events")).json()["events"]
        (reused,) = [each["payload"] for each in events if each["kind"] == "llm_response"]
        assert reused["reused"].startswith(f"{said[0][1]}#")
        assert reused["usage"]["prompt_tokens"] == 0
