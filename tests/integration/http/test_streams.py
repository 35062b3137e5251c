"""Streams of events: complete, in order, nothing twice, and never at the expense of the run."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.interfaces.http.connection import Connection
from agent_fabric.interfaces.http.runs import watch
from agent_fabric.testing.scripted_model import Call, Calls, Hang, Script, Slow, Status
from e2e.fabric_process import until
from integration.http.served import DONE, LOOK, PING, data_of, deaf_reader, ids, served, task
from integration.persistence.opened_store import store_of


def lines_of(meta: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(meta["run_dir"]) / "runlog.jsonl").read_text().splitlines()]


@pytest.mark.proves("AF-032", "AF-033", "AF-034", "AF-146")
async def test_a_stream_carries_every_event_as_the_run_log_has_it_and_then_the_result(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        stream = await server.start("long")
        assert "content-type: text/event-stream" in stream.head
        *frames, last = await stream.frames()
        assert all(frame.split("\n")[0].startswith("id: ") and len(frame.split("\n")) == 2 for frame in frames)
        end = data_of(last)
        assert last.startswith("data: ")
        assert (end["kind"], end["run_id"]) == ("_run_done_", stream.run_id)
        lines = lines_of(end["payload"]["_meta"])
        assert ids(frames) == [line["seq"] for line in lines] == list(range(len(lines)))
        assert [data_of(frame) for frame in frames] == lines
        result = (await server.client.post(f"/runs/{stream.run_id}/resume")).json()
        assert end["payload"] == result


@pytest.mark.proves("AF-034", "AF-146")
async def test_a_stream_of_a_run_that_fails_ends_with_the_error(tmp_path: Path) -> None:
    async with served(tmp_path, Script((Status(400, times=99),))) as server:
        *_, before, last = await (await server.start()).frames()
    assert data_of(before)["kind"] == "run_failed"
    assert data_of(last)["kind"] == "_run_error_"
    assert data_of(last)["payload"]["error"]["code"] == "model_refused"


@pytest.mark.proves("AF-032", "C32")
@pytest.mark.parametrize("last", [-1, 0, 3, 70])
async def test_a_reader_that_comes_back_misses_nothing_and_gets_nothing_twice(tmp_path: Path, last: int) -> None:
    async with served(tmp_path) as server:
        stream = await server.start("long")
        seen = [await stream.frame() for _ in range(last + 1)]
        stream.close()
        again = await server.watch(stream.run_id, last=last)
        *rest, end = await again.frames()
        assert data_of(end)["kind"] == "_run_done_"
        assert [data_of(frame) for frame in (*seen, *rest)] == lines_of(data_of(end)["payload"]["_meta"])


async def test_a_reader_that_comes_and_goes_all_the_time_sees_every_event_once(tmp_path: Path) -> None:
    turns = [Slow(Call("list_files", {"path": "."}), 0.005) for _ in range(30)]
    async with served(tmp_path, Script((*turns, DONE)), max_running=4) as server:
        stream = await server.start()
        seen: list[int] = []
        frame = await stream.frame()
        for stay in range(1000):
            for _ in range(1 + stay % 5):
                if frame.startswith("id: "):
                    seen += ids([frame])
                frame = await stream.frame()
                if not frame or "_run_done_" in frame:
                    break
            if not frame or "_run_done_" in frame:
                break
            # The frame in our hands was not taken note of: it must come again.
            stream.close()
            stream = await server.watch(stream.run_id, last=seen[-1])
            frame = await stream.frame()
        lines = lines_of((await server.client.get(f"/runs/{stream.run_id}")).json()["_meta"])
        assert seen == [line["seq"] for line in lines]


async def test_a_settled_run_is_streamed_whole_and_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        meta = (await server.client.post("/run", json=task("long"))).json()["_meta"]
        count = len(lines_of(meta))
        for last, expected in ((None, count), (count - 2, 1), (count - 1, 0), (count + 100, 0), (2**63 - 1, 0)):
            *frames, end = await (await server.watch(meta["run_id"], last=last)).frames()
            assert (len(frames), data_of(end)["kind"]) == (expected, "_run_done_")
        *frames, end = await (await server.watch(meta["run_id"], f"?after={count - 4}")).frames()
        assert ids(frames) == [count - 3, count - 2, count - 1]


async def test_without_following_a_stream_ends_with_what_there_is(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        stream = await server.start("hang")
        await server.model.wait_for_requests(1)
        frames = await (await server.watch(stream.run_id, "?follow=false")).frames()
        assert [data_of(frame)["kind"] for frame in frames][-1] == "llm_request"
        await server.client.post(f"/runs/{stream.run_id}/cancel")
        frames = await (await server.watch(stream.run_id, "?follow=false")).frames()
        assert data_of(frames[-1])["kind"] == "_run_error_"
        named_only = await (await server.watch(stream.run_id, "?follow")).frames()
        assert named_only == frames


async def test_a_run_that_another_process_drives_can_be_followed_to_its_end(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        process, run_id = await server.elsewhere("slower")
        first, second = await server.watch(run_id), await server.watch(run_id)
        frames = await first.frames()
        assert frames == await second.frames()
        assert (await process.ended()).code == 0
        assert data_of(frames[-1])["kind"] == "_run_done_"
        assert [data_of(frame) for frame in frames[:-1]] == lines_of(data_of(frames[-1])["payload"]["_meta"])


@pytest.mark.sqlite  # servers that share a database take it over: tests/e2e/cluster
async def test_readers_are_told_when_nobody_drives_the_run_any_more(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        process, run_id = await server.elsewhere("hang")
        stream = await server.watch(run_id)
        await stream.frame()
        process.process.kill()
        await process.ended()
        end = data_of((await stream.frames())[-1])
        assert end["kind"] == "_run_error_"
        assert end["payload"]["_meta"]["status"] == "interrupted"


async def test_a_run_that_is_resumed_here_is_followed_through(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        process, run_id = await server.elsewhere("slower")
        process.process.terminate()
        await process.ended()
        assert (await server.client.post(f"/runs/{run_id}/resume")).status_code == 202
        *frames, end = await (await server.watch(run_id)).frames()
        assert data_of(end)["kind"] == "_run_done_"
        assert ids(frames) == list(range(len(frames)))
        kinds = [data_of(frame)["kind"] for frame in frames]
        assert kinds.index("run_interrupted") < kinds.index("run_resumed") < kinds.index("run_complete")


async def test_answers_are_streamed_as_they_are_written_only_to_those_who_ask(tmp_path: Path) -> None:
    text = "I look around before I do anything else. " * 5
    script = Script((Calls((LOOK,), text=text), DONE))
    async with served(tmp_path, script) as server:
        frames = await (await server.open("POST", "/run/stream?deltas=true", body=task())).frames()
        deltas = [frame for frame in frames if frame.startswith("event: delta\n")]
        assert "".join(data_of(frame)["text"] for frame in deltas).startswith(text)
        kinds = ["delta" if frame in deltas else data_of(frame)["kind"] for frame in frames]
        first, last = kinds.index("delta"), len(kinds) - 1 - kinds[::-1].index("delta")
        assert kinds[first - 1] == "llm_request"
        assert kinds.index("llm_response") > first, "they come before the whole answer"
        assert all("id: " not in frame for frame in deltas)
        assert last < kinds.index("_run_done_")
        assert not [frame for frame in await (await server.start()).frames() if "event: delta" in frame]
        assert not server.live.wants_deltas


async def test_a_reader_gets_a_sign_of_life_while_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "BEAT_S", 0.1)
    monkeypatch.setattr(watch, "POLL_S", 0.05)
    async with served(tmp_path) as server:
        stream = await server.start("hang")
        frames = [await stream.frame(pings=True) for _ in range(8)]
        assert frames[-3:] == [PING] * 3


@pytest.mark.sqlite  # a database that is gone comes back: tests/e2e/cluster
async def test_a_store_that_fails_ends_the_stream_with_the_error(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        stream = await server.start("slower")
        await server.model.wait_for_requests(1)
        store_of(server.fabric.records).read_now(lambda db: db.execute("ALTER TABLE blobs RENAME TO gone"))
        store_of(server.fabric.records).read_now(lambda db: db.execute("ALTER TABLE events RENAME TO lost"))
        end = data_of((await stream.frames())[-1])
        assert end["kind"] == "_run_error_"
        assert end["payload"]["error"]["code"] == "store_unavailable"


@pytest.mark.slow
async def test_readers_that_never_read_get_stuck_and_cost_nothing_while_others_see_it_all(tmp_path: Path) -> None:
    turns = [Call("write_file", {"path": f"{number}.txt", "content": "x" * 1_500}) for number in range(100)]
    script = Script((DONE,), named={"long": (*turns, Hang(times=99))})
    async with served(tmp_path, script) as server:
        stream = await server.start("long", max_steps=1_000)
        deaf = [deaf_reader(server.port, server.token, stream.run_id) for _ in range(300)]
        frames = [await stream.frame() for _ in range(4 * len(turns))]
        assert ids(frames) == list(range(len(frames)))
        feed = server.live.feeds()[0]
        await until(lambda: feed.readers == 301 and len(feed._waiting) <= 1, "all but one are stuck")
        spent = time.process_time()
        await asyncio.sleep(2)
        assert time.process_time() - spent < 1, "they wait, they do not spin"
        late = await server.watch(stream.run_id, "?follow=false")
        assert ids(await late.frames())[: len(frames)] == list(range(len(frames)))
        for connection in deaf:
            connection.close()
        await until(lambda: feed.readers == 1, "those who left are noticed")


class Impatient(Connection):
    """Waits only briefly for a client to read."""

    unread_s = 0.5


@pytest.mark.parametrize("query", ["", "?full=true"])
async def test_a_stream_that_nobody_reads_is_closed_after_a_while_whoever_opened_it(tmp_path: Path, query: str) -> None:
    turns = [Call("write_file", {"path": f"{number}.txt", "content": "x" * 30_000}) for number in range(20)]
    async with served(tmp_path, Script((*turns, DONE)), connection=Impatient) as server:
        run_id = (await server.client.post("/run", json=task(max_steps=100))).json()["_meta"]["run_id"]
        deaf = [deaf_reader(server.port, server.token, run_id, query) for _ in range(20)]
        await until(lambda: bool(server.live.feeds()), "they are served")
        await until(lambda: not server.live.feeds(), "they are gone")
        for connection in deaf:
            connection.close()


@pytest.mark.proves("WA-3")
async def test_a_stream_and_its_live_text_hide_what_looks_like_a_secret_as_the_log_does(tmp_path: Path) -> None:
    rest = "a1B2" * 9
    token, hidden = f"ghp_{rest}", "[secret: token]"
    make = Call("shell", {"command": f"printf '%s_%s\\n' ghp {rest}; python3 -c \"open('gh'+'p_{rest}.txt', 'w')\""})
    script = Script((Calls((make,), text=f"I know {token} and write it to a file."), DONE))
    async with served(tmp_path, script) as server:
        frames = await (await server.open("POST", "/run/stream?deltas=true", body=task())).frames()
        deltas = [data_of(frame)["text"] for frame in frames if frame.startswith("event: delta\n")]
        *events, end = [data_of(frame) for frame in frames if not frame.startswith("event: delta\n")]
        assert events == lines_of(end["payload"]["_meta"])
        stored = (await server.client.get(f"/runs/{end['run_id']}/events")).text
    assert "".join(deltas).startswith(f"I know {hidden} and write it to a file.")
    (result,) = [event["payload"] for event in events if event["kind"] == "tool_result" and event["payload"]["wrote"]]
    assert result["wrote"] == [f"{hidden}.txt"]
    assert result["result"]["stdout"] == f"{hidden}\n"
    for text in (*frames, "".join(deltas), stored):
        assert token not in text
