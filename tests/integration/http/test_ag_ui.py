"""Runs as AG-UI events, read with the protocol's own package."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.runs.ag_ui import AgUiEvents
from agent_fabric.testing.scripted_model import Call, Say, Script, Slow, Status
from integration.http.served import DONE, LOOK, Served, served, task

EVENT: TypeAdapter[Any] = TypeAdapter(Event)


async def followed(server: Served, run_id: str) -> list[Any]:
    """Return a run's AG-UI stream, each event as the official package reads it."""
    stream = await server.open("GET", f"/api/v1/runs/{run_id}/ag-ui")
    assert "content-type: text/event-stream" in stream.head
    frames = [frame for frame in await stream.frames() if not frame.startswith(":")]
    return require_sound([EVENT.validate_json(frame.removeprefix("data: ")) for frame in frames])


def require_sound(events: Sequence[Any]) -> list[Any]:
    """Check what every client of AG-UI relies on: one beginning, one end, and everything closed before it."""
    kinds = [event.type.value for event in events]
    assert kinds[0] == "RUN_STARTED"
    assert kinds[-1] in {"RUN_FINISHED", "RUN_ERROR"}
    assert sum(kind.startswith("RUN_") for kind in kinds) == 2
    steps, texts, calls = set[str](), set[str](), set[str]()
    for event in events:
        match event.type.value:
            case "STEP_STARTED":
                assert event.step_name not in steps
                steps.add(event.step_name)
            case "STEP_FINISHED":
                steps.remove(event.step_name)
            case "TEXT_MESSAGE_START":
                texts.add(event.message_id)
            case "TEXT_MESSAGE_CONTENT":
                assert event.message_id in texts
            case "TEXT_MESSAGE_END":
                texts.remove(event.message_id)
            case "TOOL_CALL_START":
                calls.add(event.tool_call_id)
            case "TOOL_CALL_END" | "TOOL_CALL_RESULT":
                assert event.tool_call_id in calls
            case _:
                pass
    assert not texts
    assert kinds[-1] == "RUN_ERROR" or not steps
    return list(events)


def of_kind(events: Sequence[Any], kind: str) -> list[Any]:
    return [event for event in events if event.type.value == kind]


@pytest.mark.proves("C14")
async def test_a_run_is_followed_with_the_official_package(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        result = (await server.client.post("/run", json=task())).json()
        run_id = result["_meta"]["run_id"]
        events = await followed(server, run_id)
        log = (await server.client.get(f"/runs/{run_id}/events?limit=1000")).json()["events"]
    assert (events[0].run_id, events[0].thread_id) == (run_id, run_id)
    calls = of_kind(events, "TOOL_CALL_START")
    assert [call.tool_call_name for call in calls] == ["list_files", "finish_task"]
    assert json.loads(of_kind(events, "TOOL_CALL_ARGS")[0].delta) == {"path": "."}
    assert [each.tool_call_id for each in of_kind(events, "TOOL_CALL_RESULT")] == [each.tool_call_id for each in calls]
    assert [each.step_name for each in of_kind(events, "STEP_FINISHED")] == ["engineering"]
    assert (events[-1].result["summary"], events[-1].outcome.type) == ("all done", "success")
    assert {line["kind"] for line in log} - {event.name for event in of_kind(events, "CUSTOM")} == {
        *("run_created", "pack_start", "tool_call", "tool_result", "run_complete")
    }


@pytest.mark.proves("C14")
async def test_an_answer_is_told_as_it_is_written_and_whole_in_the_end(tmp_path: Path) -> None:
    words = "one two three " * 300
    turns = (Slow(LOOK, 0.5), Slow(Say(words), 1.0), DONE)
    async with served(tmp_path, Script(turns=turns)) as server:
        run_id = (await server.client.post("/runs", json=task())).json()["run_id"]
        events = await followed(server, run_id)
        again = await followed(server, run_id)
    pieces = [each.delta for each in of_kind(events, "TEXT_MESSAGE_CONTENT")]
    assert "".join(pieces) == words
    assert len(pieces) > 1, "it came in pieces"
    assert [each.delta for each in of_kind(again, "TEXT_MESSAGE_CONTENT")] == [words], "afterwards at once"


@pytest.mark.proves("C14")
async def test_a_run_that_fails_or_is_cancelled_ends_as_ag_ui_says_it(tmp_path: Path) -> None:
    script = Script((Status(400, times=99),), named={"push": (Call("shell", {"command": "make deploy"}), DONE)})
    async with served(tmp_path, script) as server:
        failed = (await server.client.post("/run", json=task())).json()["_meta"]["run_id"]
        last = (await followed(server, failed))[-1]
        assert (last.type.value, last.code) == ("RUN_ERROR", "model_refused")
        waiting = (await server.client.post("/run", json=task("push"))).json()["_meta"]["run_id"]
        await server.client.post(f"/runs/{waiting}/cancel", json={})
        *events, last = await followed(server, waiting)
        assert (last.type.value, last.outcome.type) == ("RUN_FINISHED", "cancelled")
        asked = next(each for each in of_kind(events, "CUSTOM") if each.name == "approval_requested")
        assert asked.value["args"] == {"command": "make deploy"}
        assert (await server.client.get("/api/v1/runs/none/ag-ui")).status_code == 404


def line(seq: int, kind: str, lane: str | None = "0", **payload: Any) -> dict[str, Any]:
    return {"ts": 1.5, "seq": seq, "kind": kind, "lane": lane, "payload": payload}


def answer(content: str) -> dict[str, Any]:
    return {"content": content, "tool_calls": []}


def texts(*said: str, whole: str, known: int = 0) -> list[tuple[str, str]]:
    """Return the messages that become of pieces of an answer, and the answer."""
    events = AgUiEvents(RunId("run"), known=known)
    found = [*events.of_line(line(0, "run_created", None)), *events.of_line(line(1, "llm_request"))]
    for piece in said:
        found += events.of_piece({"lane": "0", "text": piece})
    found += [*events.of_line(line(2, "llm_response", **answer(whole)))]
    found += [*events.of_line(line(3, "run_complete", None, payload={}))]
    require_sound([EVENT.validate_python(event) for event in found])
    messages: dict[str, str] = {}
    for event in found:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            messages[event["messageId"]] = messages.get(event["messageId"], "") + event["delta"]
    return [*messages.items()]


def test_pieces_are_told_only_if_their_beginning_was_heard_and_a_lost_one_is_made_good() -> None:
    assert texts("one ", "two", whole="one two three") == [("run-1", "one two three")]
    assert texts("two", whole="one two", known=1) == [("run-1", "one two")]
    assert texts("one ", "three", whole="one two three") == [("run-1", "one three"), ("run-1-whole", "one two three")]
    assert texts("a call follows ```", whole="a call follows") == [("run-1", "a call follows ```")]
    assert texts(whole="") == []


def test_what_a_model_thought_is_told_as_reasoning() -> None:
    events = AgUiEvents(RunId("run"))
    found = [EVENT.validate_python(each) for each in events.of_line(line(1, "reasoning", text="hm", chars=2))]
    assert [each.type.value.removeprefix("REASONING_") for each in found] == [
        *("START", "MESSAGE_START", "MESSAGE_CONTENT", "MESSAGE_END", "END")
    ]
    assert found[2].delta == "hm"


def test_a_stream_that_ends_before_its_run_says_so() -> None:
    events = AgUiEvents(RunId("run"))
    begun = [*events.of_line(line(0, "run_created", None)), *events.of_line(line(1, "step_started", step_id="a"))]
    end = [*events.of_end({"payload": {"_meta": {"status": "interrupted"}}})]
    (said,) = require_sound([EVENT.validate_python(event) for event in begun + end])[-1:]
    assert (said.message, said.code) == ("The run has not ended: it is interrupted.", "interrupted")
    assert not [*events.of_end({"payload": {}})]
