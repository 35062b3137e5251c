"""A request that is sent again is carried out once, and answered with what came of it the first time."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.infrastructure.clock import RandomIds
from agent_fabric.infrastructure.persistence.runs.idempotency import CLEARED_AT_ONCE, KEPT_S, SqlIdempotencyStore
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.testing.fakes import FrozenClock
from integration.http.served import PATIENCE_S, Served, bearer, data_of, served, task
from integration.persistence.opened_store import rows_of

pytestmark = pytest.mark.proves("A33-074")


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def typed(headers: dict[str, str]) -> dict[str, str]:
    return {"Content-Type": "application/json", **headers}


async def runs(server: Served) -> list[str]:
    return [run["run_id"] for run in (await server.client.get("/runs?limit=200")).json()["runs"]]


async def test_the_same_request_again_is_answered_with_the_first_result(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = await server.client.post("/run", json=task(), headers=keyed("one"))
        again = await server.client.post("/run", json=task(), headers=keyed("one"))
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.content == first.content
        assert again.headers["content-type"] == first.headers["content-type"]
        assert again.headers["idempotency-replayed"] == "true"
        assert "idempotency-replayed" not in first.headers
        assert len(await runs(server)) == 1
        other = await server.client.post("/run", json=task(), headers=keyed("two"))
        assert other.json()["_meta"]["run_id"] != first.json()["_meta"]["run_id"]


async def test_the_canonical_path_is_the_same_request(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = await server.client.post("/run", json=task(), headers=keyed("one"))
        again = await server.client.post("/api/v1/run", json=task(), headers=keyed("one"))
        assert again.content == first.content


async def test_the_key_of_another_request_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await server.client.post("/run", json=task(), headers=keyed("one"))
        for method, path, body in (
            ("POST", "/run", task(max_steps=7)),
            ("POST", "/run/stream", task()),
            ("POST", "/run?deltas", task()),
            ("PUT", "/run", task()),
        ):
            refused = await server.client.request(method, path, json=body, headers=keyed("one"))
            assert refused.status_code == 422
            assert refused.json()["code"] == "idempotency_mismatch"
        assert len(await runs(server)) == 1


async def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for key in ("", "has space", "x" * 256, "tab\there", "ü"):
            headers = [(b"Idempotency-Key", key.encode("latin-1"))]
            refused = await server.client.post("/run", json=task(), headers=headers)
            assert refused.status_code == 400
            assert "255" in refused.json()["hint"]
        assert await runs(server) == []


async def test_the_longest_key_is_taken_and_two_keys_are_not(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert (await server.client.post("/run", json=task(), headers=keyed("~" * 255))).status_code == 200
        two = [(b"Idempotency-Key", b"one"), (b"Idempotency-Key", b"two")]
        assert (await server.client.post("/run", json=task(), headers=two)).status_code == 400


async def test_fifty_at_once_start_one_run_and_all_get_its_result(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        answers = await asyncio.gather(
            *(server.client.post("/run", json=task("slow"), headers=keyed("one")) for _ in range(50))
        )
        assert {each.status_code for each in answers} == {200}
        assert len({each.content for each in answers}) == 1
        assert sum("idempotency-replayed" not in each.headers for each in answers) == 1
        assert len(await runs(server)) == 1


async def test_another_request_under_a_key_that_is_in_use_is_refused_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = asyncio.create_task(server.client.post("/run", json=task("slow"), headers=keyed("one")))
        await server.model.wait_for_requests(1, timeout_s=PATIENCE_S)
        refused = await server.client.post("/run", json=task("hang"), headers=keyed("one"))
        assert refused.status_code == 422
        assert (await first).status_code == 200


async def test_who_loses_patience_does_not_stop_the_request_for_the_others(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = await server.send("POST", "/run", body=task("slow"), headers=keyed("one"))
        await server.model.wait_for_requests(1, timeout_s=PATIENCE_S)
        second = await server.send("POST", "/run", body=task("slow"), headers=keyed("one"))
        first.close()
        second.close()
        again = await server.client.post("/run", content=json.dumps(task("slow")), headers=typed(keyed("one")))
        assert again.status_code == 200
        assert again.json()["summary"] == "all done"
        assert len(await runs(server)) == 1


async def test_a_stream_that_is_asked_for_again_shows_the_same_run_from_its_beginning(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        request: dict[str, Any] = {"body": task("slow"), "headers": keyed("one")}
        first = await server.open("POST", "/run/stream", **request)
        during = await server.open("POST", "/run/stream", **request)
        frames = await first.frames()
        after = await server.open("POST", "/run/stream", **request)
        assert first.run_id == during.run_id == after.run_id
        assert await during.frames() == frames
        assert await after.frames() == frames
        assert data_of(frames[-1])["kind"] == "_run_done_"
        assert "idempotency-replayed: true" in after.head.lower()
        assert "idempotency-replayed" not in first.head.lower()
        assert len(await runs(server)) == 1


async def test_the_same_answer_is_given_after_the_server_was_restarted(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        first = await server.client.post("/run", json=task(), headers=keyed("one"))
    async with served(tmp_path) as server:
        again = await server.client.post("/run", json=task(), headers=keyed("one"))
        assert again.content == first.content
        assert again.headers["idempotency-replayed"] == "true"


async def test_mistakes_are_answered_again_and_refusals_for_the_moment_are_not(tmp_path: Path) -> None:
    async with served(tmp_path, max_running=1, max_queued=0) as server:
        wrong = await server.client.post("/run", json={"prompt": ""}, headers=keyed("wrong"))
        again = await server.client.post("/run", json={"prompt": ""}, headers=keyed("wrong"))
        assert (wrong.status_code, again.status_code) == (422, 422)
        assert again.content == wrong.content
        assert again.headers["idempotency-replayed"] == "true"
        hanging = await server.start("hang")
        busy = await server.client.post("/run", json=task(), headers=keyed("busy"))
        assert busy.status_code == 503
        await server.client.post(f"/runs/{hanging.run_id}/cancel")
        await server.settled(hanging.run_id)
        later = await server.client.post("/run", json=task(), headers=keyed("busy"))
        assert later.status_code == 200
        assert "idempotency-replayed" not in later.headers


async def test_requests_that_start_no_run_are_carried_out_once_too(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        stream = await server.start("hang")
        first = await server.client.post(f"/runs/{stream.run_id}/cancel", json={"reason": "a"}, headers=keyed("c"))
        again = await server.client.post(f"/runs/{stream.run_id}/cancel", json={"reason": "a"}, headers=keyed("c"))
        assert again.content == first.content
        assert again.headers["idempotency-replayed"] == "true"


async def test_reading_takes_no_notice_of_a_key(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        before = await server.client.get("/runs", headers=keyed("one"))
        await server.client.post("/run", json=task())
        after = await server.client.get("/runs", headers=keyed("one"))
        assert before.json()["runs"] == []
        assert len(after.json()["runs"]) == 1


async def test_a_workflow_that_is_started_again_is_the_same_run(tmp_path: Path) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    step = {"id": "greet", "action": "run-command", "command": "echo hello {{ inputs.who }}"}
    hello = {
        "name": "hello",
        "version": "1.0.0",
        "inputs": {"who": {"type": "string", "required": True}},
        "steps": [step],
    }
    (tmp_path / "workflow-definitions" / "hello.json").write_text(json.dumps(hello))
    async with served(tmp_path) as server:
        path = "/api/v1/workflows/hello/execute"
        first = await server.client.post(path, json={"who": "ada"}, headers=keyed("one"))
        again = await server.client.post(path, json={"who": "ada"}, headers=keyed("one"))
        assert first.status_code == 200, first.text
        assert again.content == first.content
        assert len(await runs(server)) == 1


async def test_what_came_of_an_encrypted_run_is_not_kept_in_plain_text_and_still_found(tmp_path: Path) -> None:
    async with served(tmp_path, also={"encryption": "all"}) as server:
        first = await server.client.post("/run", json=task(), headers=keyed("one"))
        run_id = first.json()["_meta"]["run_id"]
        again = await server.client.post("/run", json=task(), headers=keyed("one"))
        assert again.json() == first.json()
        assert again.headers["idempotency-replayed"] == "true"
        resumed = await server.client.post(f"/runs/{run_id[:8]}/resume", headers=keyed("two"))
        assert resumed.json()["summary"] == "all done"
        wrong = await server.client.post("/run", json={}, headers=keyed("three"))
        assert wrong.status_code == 422
        assert len(await runs(server)) == 1
        kept = await rows_of(server.fabric.records, "SELECT key, body IS NULL FROM idempotency ORDER BY key")
        assert kept == [("one", 1), ("three", 0), ("two", 1)]


async def test_an_answer_that_holds_a_secret_is_not_kept_but_nothing_is_done_twice(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        body = {"name": "ci", "scopes": ["runs:read"]}
        first = await server.client.post("/api/v1/keys", json=body, headers=keyed("one"))
        assert first.status_code in {200, 201}, first.text
        again = await server.client.post("/api/v1/keys", json=body, headers=keyed("one"))
        assert again.status_code == 409
        assert again.json()["code"] == "idempotency_not_kept"
        ((kept,),) = await rows_of(server.fabric.records, "SELECT body FROM idempotency")
        assert b"a33_" not in bytes(kept)


async def test_who_may_less_does_not_bring_back_what_who_may_more_was_told(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        ada = {"name": "ada", "password": "correct horse battery staple", "role": "member"}
        await server.client.post("/api/v1/users", json=ada)
        body = {"username": "ada", "password": ada["password"]}
        logged_in = {**bearer((await server.client.post("/api/v1/login", json=body)).json()["access_token"])}
        told = await server.client.post("/run", json=task(), headers={**keyed("one"), **logged_in})
        assert told.status_code == 200
        await server.client.patch("/api/v1/users/ada", json={"role": "viewer"})
        again = await server.client.post("/run", json=task(), headers={**keyed("one"), **logged_in})
        assert again.status_code in {401, 403, 422}
        assert "all done" not in again.text


async def test_a_key_is_forgotten_after_a_day_and_its_row_with_it(tmp_path: Path) -> None:
    store, clock = Store(tmp_path / "fabric.db"), FrozenClock()
    book = SqlIdempotencyStore(store, clock, RandomIds())
    first = await book.claim("ada", "one", b"request")
    for number in range(2 * CLEARED_AT_ONCE):
        await book.claim("ada", f"other {number}", b"request")
    assert (await book.claim("ada", "one", b"request")).run_id == first.run_id
    assert (await book.claim("bob", "one", b"request")).is_new, "keys are everybody's own"
    assert not (await book.claim("ada", "one", b"another")).same_request
    clock.time += KEPT_S + 1
    late = await book.claim("ada", "one", b"another")
    assert late.is_new
    assert late.run_id != first.run_id
    for number in range(5):
        await book.claim("ada", f"new {number}", b"request")
    count = await store.read(lambda connection: connection.execute("SELECT count(*) FROM idempotency").get)
    assert count == 6
    store.close()
