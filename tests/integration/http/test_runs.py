"""Runs over HTTP: real sockets, the real engine and store, a scripted model."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric import __version__
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.sandbox.levels import choose_level
from agent_fabric.testing.scripted_model import Script, Status
from e2e.fabric_process import until
from integration.http.served import DONE, LOOK, PATIENCE_S, SCRIPT, data_of, served, task
from integration.persistence.opened_store import store_of

PROBLEM = "application/problem+json"


def problem_of(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is a problem, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    body: dict[str, Any] = answer.json()
    assert body.keys() >= {"type", "title", "status", "code", "detail", "hint"}
    assert (body["status"], body["code"]) == (status, code)
    assert body["detail"]
    return body


@pytest.mark.proves("AF-030")
async def test_health_tells_version_sandbox_and_how_many_runs_there_are(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1) as server:
        answer = await server.client.get("/health")
        assert answer.text.startswith('{"ok":true')
        level = choose_level(server.fabric.config.sandbox).level
        facts = {"ok": True, "version": __version__, "sandbox": level, "policy_profile": "workspace"}
        assert answer.json() == {**facts, "runs": {"running": 0, "queued": 0}}
        await server.start("hang")
        await server.start("hang")
        assert (await server.client.get("/health")).json()["runs"] == {"running": 1, "queued": 1}


@pytest.mark.proves("AF-009", "AF-031", "C29")
async def test_a_run_answers_what_the_command_line_prints(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        answer = await server.client.post("/run", json=task())
        assert answer.status_code == 200, answer.text
        over_http = answer.json()
        printed = (await server.command("run", task()["prompt"], "--pack", "engineering", "--json")).json
    assert over_http["action"] == "final"
    assert list(over_http) == list(printed)
    assert list(over_http["_meta"]) == list(printed["_meta"])
    for differs in ("run_id", "run_dir", "workspace", "duration_s"):
        assert type(over_http["_meta"].pop(differs)) is type(printed["_meta"].pop(differs))
    assert over_http == printed


@pytest.mark.proves("AF-009", "AF-031")
async def test_a_run_that_failed_is_an_answer_too(tmp_path: Path) -> None:
    async with served(tmp_path, Script((Status(400, times=99),))) as server:
        answer = await server.client.post("/run", json=task())
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == "model_refused"
    assert answer.json()["_meta"]["status"] == "failed"
    assert "action" not in answer.json()


WRONG_BODIES: list[tuple[Any, str]] = [
    ({}, "body.prompt"),
    ({"prompt": ""}, "body.prompt"),
    ({"prompt": " \n\t "}, "body.prompt"),
    ({"prompt": "\0\0 \x1b"}, "body.prompt"),
    ({"prompt": 7}, "body.prompt"),
    ({"prompt": "x" * 1_000_001}, "body.prompt"),
    ({"prompt": "x", "unknown": 1}, "body.unknown"),
    ({"prompt": "x", "max_steps": 0}, "body.max_steps"),
    ({"prompt": "x", "max_steps": "3"}, "body.max_steps"),
    ({"prompt": "x", "max_steps": 1001}, "body.max_steps"),
    ({"prompt": "x", "network_allowed": "yes"}, "body.network_allowed"),
    ({"prompt": "x", "pack": ""}, "body.pack"),
    ([], "body"),
]


@pytest.mark.proves("AF-031", "A33-015")
async def test_a_wrong_body_is_refused_field_by_field(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for (body, field), path in itertools.product(WRONG_BODIES, ("/run", "/run/stream")):
            refused = problem_of(await server.client.post(path, json=body), 422, "request_invalid")
            assert field in [error["field"] for error in refused["errors"]], (path, field)
        assert (await server.client.get("/runs")).json()["runs"] == []


NO_JSON = [
    b"",
    b'{"prompt": ',
    b'{"prompt": "\\ud800"}',
    b'{"\\ud800": 1}',
    b"\xff\xfe\xfd",
    b"[" * 100_000,
    b"9" * 5_000,
]


async def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for data in NO_JSON:
            answer = await server.client.post("/run", content=data, headers={"content-type": "application/json"})
            problem_of(answer, 422, "request_invalid")


async def test_what_is_too_large_is_refused_whether_its_length_is_told_or_not(tmp_path: Path) -> None:
    large = json.dumps(task(prompt="x" * 5_000)).encode()

    async def piecewise() -> Any:
        yield large[:1_000]
        yield large[1_000:]

    async with served(tmp_path, max_body_bytes=4_000) as server:
        for content in (large, piecewise()):
            answer = await server.client.post("/run", content=content, headers={"content-type": "application/json"})
            problem_of(answer, 413, "body_too_large")


OTHER_TYPES = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]


async def test_a_body_of_another_type_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for media_type in OTHER_TYPES:
            headers = {} if media_type is None else {"content-type": media_type}
            answer = await server.client.post("/run", content=json.dumps(task()).encode(), headers=headers)
            problem_of(answer, 415, "media_type_unsupported")


@pytest.mark.proves("AF-031")
async def test_an_unknown_pack_or_model_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        post = server.client.post
        refused = problem_of(await post("/run", json=task(pack="nobody")), 404, "pack_unknown")
        assert "engineering" in refused["hint"]
        problem_of(await post("/run/stream", json=task(pack="nobody")), 404, "pack_unknown")
        problem_of(await post("/run", json=task(model_key="none")), 422, "config_invalid")
        assert (await server.client.get("/runs")).json() == {"runs": [], "next": None}


ERRORS = [
    ("GET", "/nothing", 404, "not_found"),
    ("GET", "/runs/", 404, "not_found"),
    ("GET", "/run", 405, "method_not_allowed"),
    ("DELETE", "/runs", 405, "method_not_allowed"),
    ("GET", "/runs/none", 404, "run_not_found"),
    ("GET", "/runs/none/status", 404, "run_not_found"),
    ("GET", "/runs/none/events", 404, "run_not_found"),
    ("GET", "/runs/%00%FF/status", 404, "run_not_found"),
    ("POST", "/runs/none/resume", 404, "run_not_found"),
    ("POST", "/runs/none/cancel", 404, "run_not_found"),
    ("GET", "/runs?limit=0", 422, "request_invalid"),
    ("GET", "/runs?limit=201", 422, "request_invalid"),
    ("GET", "/runs?status=gone", 422, "request_invalid"),
    ("GET", "/runs?after=x", 422, "request_invalid"),
    ("GET", "/runs?since=yesterday", 422, "request_invalid"),
    ("GET", "/runs/none/events?after=-2", 422, "request_invalid"),
]


async def test_every_error_is_a_problem(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for method, path, status, code in ERRORS:
            answer = await server.client.request(method, path)
            problem_of(answer, status, code)
            if status == 405:
                assert answer.headers["allow"]


async def test_a_bug_of_ours_is_a_problem_without_a_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path) as server:
        await server.client.post("/run", json=task())
        # A store whose table has gone is no error that we can explain, and stands for all of them.
        store_of(server.fabric.records).read_now(lambda connection: connection.execute("DROP TABLE drivers"))
        object.__setattr__(server.fabric.runs, "catalogue", None)
        refused = problem_of(await server.client.get("/runs"), 500, "internal_error")
    assert "Traceback" not in json.dumps(refused)
    assert "NoneType" not in json.dumps(refused)
    assert "GET /runs failed" in caplog.text


@pytest.mark.sqlite
@pytest.mark.proves("AF-036", "C31")
async def test_status_tells_where_a_run_stands_whoever_drives_it(tmp_path: Path) -> None:
    async with served(
        tmp_path, Script((LOOK, DONE), named={**SCRIPT.named, "refuse": (Status(400, times=99),)})
    ) as server:
        done = (await server.client.post("/run", json=task())).json()["_meta"]["run_id"]
        failed = (await server.client.post("/run", json=task("refuse"))).json()["_meta"]["run_id"]
        hanging = await server.start("hang")
        assert (await server.client.get(f"/runs/{done}/status")).json() == {"run_id": done, "status": "completed"}
        assert await server.status(failed) == "failed"
        assert await server.status(hanging.run_id) == "running"
        assert await server.status(hanging.run_id[:13].upper()) == "running", "the beginning of an id will do"
        await server.client.post(f"/runs/{hanging.run_id}/cancel")
        assert await server.status(hanging.run_id) == "cancelled"

        process, foreign = await server.elsewhere("hang")
        assert await server.status(foreign) == "running"
        process.process.kill()
        await process.ended()
        assert await server.status(foreign) == "interrupted"


async def test_a_beginning_that_several_runs_share_is_refused_with_the_choice(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        runs = [(await server.client.post("/run", json=task())).json()["_meta"]["run_id"] for _ in range(40)]
        shared = next(run[0] for run in runs if sum(other[0] == run[0] for other in runs) > 1)
        refused = problem_of(await server.client.get(f"/runs/{shared}"), 404, "run_not_found")
        assert any(run in refused["hint"] for run in runs)


async def test_a_run_is_shown_with_what_was_asked_and_when(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1) as server:
        done = (await server.client.post("/run", json=task())).json()
        shown = (await server.client.get(f"/runs/{done['_meta']['run_id']}")).json()
        meta = shown["_meta"]
        assert meta.pop("prompt") == "do it"
        assert meta.pop("created_at") < meta.pop("updated_at")
        assert meta.pop("queued") is False
        assert meta.pop("events") > 3
        assert (meta.pop("owner"), meta.pop("visibility")) == ("local", "team")
        assert shown == done

        first, second = await server.start("hang"), await server.start("hang")
        for stream, queued in ((first, False), (second, True)):
            meta = (await server.client.get(f"/runs/{stream.run_id}")).json()["_meta"]
            assert (meta["status"], meta["queued"]) == ("running", queued)


async def test_runs_are_listed_in_pages_and_filtered(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        runs = []
        for number in range(7):
            body = task(prompt=f"task {number} about {'apples' if number % 2 else 'pears'}")
            runs.append((await server.client.post("/run", json=body)).json()["_meta"]["run_id"])

        async def pages(query: str) -> list[list[str]]:
            found: list[list[str]] = []
            path: str | None = f"/runs{query}"
            while path is not None:
                answer = (await server.client.get(path)).json()
                found.append([run["run_id"] for run in answer["runs"]])
                path = answer["next"]
            return found

        newest_first = runs[::-1]
        assert await pages("") == [newest_first]
        assert await pages("?limit=3") == [newest_first[:3], newest_first[3:6], newest_first[6:]]
        assert await pages("?limit=7") == [newest_first]
        assert await pages("?q=PEARS%20about&limit=2") == [[runs[6], runs[4]], [runs[2], runs[0]]]
        assert await pages("?q=peaches") == [[]]
        assert await pages("?pack=engineering&status=completed") == [newest_first]
        assert await pages("?pack=research") == [[]]
        assert await pages("?status=failed") == [[]]
        created = (await server.client.get("/runs")).json()["runs"][3]["created_at"]
        assert await pages(f"?since={created}") == [newest_first[:4]]
        assert await pages(f"?until={created}") == [newest_first[4:]]
        assert await pages("?since=2100-01-01T00:00:00Z") == [[]]
        assert await pages("?until=2100-01-01") == [newest_first]


async def test_events_are_given_in_pages_as_the_run_log_has_them(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        meta = (await server.client.post("/run", json=task("long"))).json()["_meta"]
        events: list[dict[str, Any]] = []
        path: str | None = f"/runs/{meta['run_id']}/events?limit=20"
        while path is not None:
            answer = (await server.client.get(path)).json()
            events += answer["events"]
            assert len(answer["events"]) <= 20
            path = answer["next"]
        lines = [json.loads(line) for line in (Path(meta["run_dir"]) / "runlog.jsonl").read_text().splitlines()]
        assert events == lines
        behind = (await server.client.get(f"/runs/{meta['run_id']}/events?after=5&limit=1000")).json()
        assert behind == {"run_id": meta["run_id"], "events": lines[6:], "next": None}


@pytest.mark.proves("AF-035", "C32")
async def test_a_run_goes_on_when_its_client_leaves(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        waiting = await server.send("POST", "/run", body=task("slow"))
        watching = await server.start("slow")
        await server.model.wait_for_requests(2)
        waiting.close()
        watching.close()
        await until(lambda: not server.live.feeds(), "the reader that left is noticed")
        for run in (await server.client.get("/runs")).json()["runs"]:
            result = await server.settled(run["run_id"])
            assert (result["_meta"]["status"], result["summary"]) == ("completed", "all done")


async def test_a_run_beyond_the_queue_is_refused_before_it_is_created(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1, max_queued=1) as server:
        first, second = await server.start("hang"), await server.start("slow")
        refused = await server.client.post("/run", json=task())
        problem_of(refused, 503, "server_busy")
        assert int(refused.headers["retry-after"]) > 0
        assert len((await server.client.get("/runs")).json()["runs"]) == 2
        await server.client.post(f"/runs/{first.run_id}/cancel")
        assert data_of((await second.frames())[-1])["kind"] == "_run_done_", "its turn came"
        assert (await server.client.post("/run", json=task())).status_code == 200


async def test_runs_have_their_turn_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=2) as server:
        streams = [await server.start("slow", prompt=f"number {number}") for number in range(8)]
        ended = [(await stream.frames())[-1] for stream in streams]
        assert all(data_of(frame)["kind"] == "_run_done_" for frame in ended)
        asked = [request.body["messages"][1]["content"] for request in server.model.requests]
        assert list(dict.fromkeys(asked)) == [f"number {number}" for number in range(8)]


async def test_a_queued_run_can_be_cancelled_from_here_and_from_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1) as server:
        await server.start("hang")
        here, there = await server.start(), await server.start()
        answer = await server.client.post(f"/runs/{here.run_id}/cancel", json={"reason": "not now"})
        assert (answer.status_code, answer.json()["_meta"]["status"]) == (200, "cancelled")
        assert (await server.command("cancel", there.run_id)).code == 0
        for stream in (here, there):
            frames = await stream.frames()
            assert [data_of(frame)["kind"] for frame in frames] == ["run_created", "run_cancelled", "_run_error_"]
            assert data_of(frames[-1])["payload"]["_meta"]["status"] == "cancelled"
        assert (await server.client.get("/health")).json()["runs"] == {"running": 1, "queued": 0}
        assert len(server.model.requests) == 1, "nobody asked the model for them"


async def test_cancelling_ends_a_run_whose_model_hangs(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        stream = await server.start("hang")
        await server.model.wait_for_requests(1)
        answer = await server.client.post(f"/runs/{stream.run_id}/cancel", json={"reason": "enough"})
        assert answer.json()["_meta"]["status"] == "cancelled"
        *_, last, end = await stream.frames()
        assert data_of(last)["payload"]["reason"] == "enough"
        assert data_of(end)["kind"] == "_run_error_"
        again = await server.client.post(f"/runs/{stream.run_id}/cancel")
        assert (again.status_code, again.json()) == (200, answer.json()), "one that has ended stays as it is"


async def test_resuming_a_run_that_has_ended_gives_its_result(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        done = (await server.client.post("/run", json=task())).json()
        again = await server.client.post(f"/runs/{done['_meta']['run_id']}/resume")
        assert (again.status_code, again.json()) == (200, done)


async def test_resuming_goes_on_with_an_interrupted_run(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        process, run_id = await server.elsewhere("slower")
        process.process.terminate()
        assert (await process.ended()).code == 130
        assert await server.status(run_id) == "interrupted"
        first = await server.client.post(f"/runs/{run_id}/resume")
        assert (first.status_code, first.json()) == (202, {"run_id": run_id, "status": "running"})
        assert first.headers["location"] == f"/runs/{run_id}"
        second = await server.client.post(f"/runs/{run_id}/resume?wait=true")
        assert second.status_code == 200, "it is ours already: we wait for the same drive"
        assert second.json()["_meta"]["status"] == "completed"


async def test_a_run_that_another_process_drives_is_left_to_it(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        process, run_id = await server.elsewhere("hang")
        refused = problem_of(await server.client.post(f"/runs/{run_id}/resume"), 409, "run_held")
        assert refused["run_id"] == run_id
        assert f"process {process.process.pid}" in refused["detail"]
        process.process.kill()
        await process.ended()


async def test_the_server_answers_while_tools_block_their_threads(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for _ in range(8):
            await server.start("slow")
        async with asyncio.timeout(PATIENCE_S):
            while (await server.client.get("/health")).json()["runs"]["running"]:
                pass


@pytest.mark.slow
async def test_two_hundred_runs_at_once_all_complete(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=50) as server:
        limits = httpx2.Limits(max_connections=None)
        async with server.another_client(timeout=120, limits=limits) as client:
            answers = await asyncio.gather(*(client.post("/run", json=task(prompt=f"{n}")) for n in range(200)))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["_meta"]["status"] for answer in answers} == {"completed"}
    assert len({answer.json()["_meta"]["run_id"] for answer in answers}) == 200


@pytest.mark.sqlite
async def test_when_the_server_stops_those_who_wait_are_told_which_run_to_look_for(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1) as server:
        waiting = asyncio.create_task(server.client.post("/run", json=task("hang")))
        await server.model.wait_for_requests(1)
        queued = asyncio.create_task(server.client.post("/run", json=task()))
        watching = await server.start("hang")
        await server.fabric.stop()
        for answer in (await waiting, await queued):
            stopped = problem_of(answer, 503, "server_stopping")
            assert answer.headers["location"] == f"/runs/{stopped['run_id']}"
        end = data_of((await watching.frames())[-1])
        assert end["kind"] == "_run_error_"
        assert end["payload"]["error"]["code"] == "server_stopping"
        problem_of(await server.client.post("/run", json=task()), 503, "server_stopping")
        for run in (await server.client.get("/runs")).json()["runs"]:
            assert run["status"] == "interrupted", "nobody drives it for now"


@pytest.mark.sqlite
async def test_a_run_that_waits_to_be_taken_up_is_listed_and_counted_as_what_it_is_shown_as(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        process, left = await server.elsewhere("hang")
        process.process.kill()
        await process.ended()
        for status, expected in (("running", False), ("interrupted", True)):
            listed = (await server.client.get("/runs", params={"status": status})).json()["runs"]
            assert (left in [run["run_id"] for run in listed]) is expected
        server.fabric.runs.dispatch.expect([RunId(left)])
        for status, expected in (("running", True), ("interrupted", False)):
            listed = (await server.client.get("/runs", params={"status": status})).json()["runs"]
            assert (left in [run["run_id"] for run in listed]) is expected
            assert {run["status"] for run in listed} <= {status}
        assert (await server.client.get("/health")).json()["runs"]["queued"] == 1
        assert (await server.client.get(f"/runs/{left}")).json()["_meta"]["queued"] is True


async def test_going_on_with_a_run_many_times_at_once_is_one_drive_and_one_place(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1, max_queued=0) as server:
        process, run_id = await server.elsewhere("hang")
        process.process.terminate()
        await process.ended()
        answers = await asyncio.gather(*(server.client.post(f"/runs/{run_id}/resume") for _ in range(8)))
        assert {answer.status_code for answer in answers} == {202}


async def test_going_on_with_a_run_that_has_ended_needs_no_room_and_no_body(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1, max_queued=0) as server:
        done = (await server.client.post("/run", json=task())).json()
        await server.start("hang")
        path = f"/runs/{done['_meta']['run_id']}/resume"
        for data in (b"", b"{}"):
            again = await server.client.post(path, content=data, headers={"content-type": "application/json"})
            assert (again.status_code, again.json()) == (200, done)
        problem_of(await server.client.post(path, json={"wait": True}), 422, "request_invalid")


SPOKEN = [
    (b"NONSENSE\r\n\r\n", 400, "request_malformed"),
    (b"GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 421, "host_refused"),
    (b"GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, ""),
    (b"GET /health?x=a://b HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, ""),
]


async def test_what_is_no_request_for_us_is_refused_as_a_problem(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for request, status, code in SPOKEN:
            head, body = await _spoken(server.port, request)
            assert head.startswith(f"HTTP/1.1 {status} "), request
            assert body.get("code", "") == code, request
            assert not code or f"content-type: {PROBLEM}" in head, request


async def _spoken(port: int, request: bytes) -> tuple[str, dict[str, Any]]:
    """Send everything, and only then read the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(request)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            return head, json.loads(await reader.readexactly(length))
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("path", ["/run", "/runs/x/resume", "/nowhere"])
async def test_whoever_sends_all_of_a_large_body_first_still_learns_that_it_is_too_large(
    tmp_path: Path, path: str
) -> None:
    size = 6_000_000
    async with served(tmp_path, max_body_bytes=4_000) as server:
        start = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {server.token}\r\n"
        )
        told = f"{start}Content-Length: {size}\r\n\r\n".encode() + b"x" * size
        chunked = f"{start}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n".encode() + b"x" * size + b"\r\n0\r\n\r\n"
        for request in (told, chunked):
            head, body = await _spoken(server.port, request)
            assert (body["code"], "connection: close" in head) == ("body_too_large", True)


async def test_a_client_that_leaves_while_it_sends_is_no_failure_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        writer.write(f"Authorization: Bearer {server.token}\r\n".encode())
        writer.write(b'Content-Length: 100\r\n\r\n{"prompt"')
        await writer.drain()
        await server.client.get("/health")
        writer.transport.abort()
        assert (await server.client.get("/runs")).json()["runs"] == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_whoever_still_sends_when_the_server_stops_is_told_so(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        writer.write(f"Authorization: Bearer {server.token}\r\n".encode())
        writer.write(b'Content-Length: 100\r\n\r\n{"prompt"')
        await writer.drain()
        await server.client.get("/health")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 503 ")
    assert json.loads(body)["code"] == "server_stopping"


ACCEPTED: list[tuple[list[str], bool]] = [
    (["Text/Event-Stream"], True),
    (["application/json", "text/event-stream;q=0.5"], True),
    (["text/event-stream;q=0, application/json"], False),
    (["text/event-stream; q=0.000"], False),
    (["*/*"], False),
]


async def test_a_stream_is_sent_to_those_who_accept_it(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        run_id = (await server.client.post("/run", json=task())).json()["_meta"]["run_id"]
        for accepts, stream in ACCEPTED:
            headers = [*(("Accept", accept) for accept in accepts), ("Last-Event-ID", "")]
            answer = await server.client.get(f"/runs/{run_id}/events", headers=headers)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream") is stream, accepts


async def test_heads_are_answered_without_a_body(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for path in ("/health", "/runs"):
            answer = await server.client.head(path)
            assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.sqlite
async def test_a_store_that_is_deleted_under_the_server_takes_no_runs(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        (tmp_path / ".fabric").rename(tmp_path / "gone")
        problem = problem_of(await server.client.post("/run", json=task()), 503, "store_unavailable")
        assert "start again" in problem["hint"]
        answer = await server.client.get("/health")
        assert (answer.status_code, answer.json()["ok"]) == (503, False)
        (tmp_path / "gone").rename(tmp_path / ".fabric")
        assert (await server.client.get("/health")).json()["ok"] is True
