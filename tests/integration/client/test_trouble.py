"""A client whose server is gone, slow, not ours, or behind a connection that breaks."""

import asyncio
import json
import socket
import time
from pathlib import Path

import pytest

from agent_fabric.client import AnswerUnusable, FabricClient, Notice, ServerTimedOut, ServerUnreachable, TaskRequest
from agent_fabric.domain.errors import RunNotFound, ServerBusy
from agent_fabric.domain.events import Event
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.wire.results import result_object
from integration.client.stand_ins import answer, bridge, listening, standing_in
from integration.http.served import served
from unit.interfaces.test_presentation import outcome

WISH = TaskRequest(prompt="do it", pack="engineering")
BROKEN = b""
HTML = answer("<html><h1>502 Bad Gateway</h1></html>", status="502 Bad Gateway", kind="text/html")
LIST = answer('{"runs": [], "next": null}')
STARTED = answer('{"run_id": "d36e91a5", "status": "running"}', status="202 Accepted")
HEALTH = answer('{"ok": true, "version": "99.0", "sandbox": "A", "runs": {"running": 0, "queued": 0}}')


async def test_a_dead_port_asks_whether_the_server_runs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with FabricClient(f"http://127.0.0.1:{port}", token="t") as client:
        with pytest.raises(ServerUnreachable, match=r"No server answers at http://127\.0\.0\.1") as gone:
            await client.runs.list()
        assert gone.value.hint == "Is the server running? Start it with `fabric serve`."
        with pytest.raises(ServerUnreachable):
            async for _ in client.runs.follow("d36e"):
                pass


async def test_a_host_that_nobody_has_is_said_to_be_none() -> None:
    async with FabricClient("http://no-such-host.invalid", token="t") as client:
        with pytest.raises(ServerUnreachable, match="There is no host"):
            await client.runs.list()


async def test_a_page_of_a_proxy_is_not_taken_for_an_answer() -> None:
    async with standing_in(HTML) as server, FabricClient(server.url, token="t") as client:
        with pytest.raises(AnswerUnusable, match=r"status 502\) is not ours: it is text/html") as unusable:
            await client.runs.list()
        assert "proxy" in unusable.value.hint
        assert len(server.requests) == 1
        with pytest.raises(AnswerUnusable):
            async for _ in client.runs.follow("d36e"):
                pass


async def test_no_redirect_is_followed_so_that_nobody_else_learns_the_token() -> None:
    async with standing_in(LIST) as other:
        elsewhere = answer("", status="307 Temporary Redirect", more=f"Location: {other.url}/runs\r\n")
        async with standing_in(elsewhere) as server, FabricClient(server.url, token="secret") as client:
            with pytest.raises(AnswerUnusable, match="it wants us to go to"):
                await client.runs.list()
            assert server.sent("Authorization") == ["Bearer secret"]
        assert other.requests == []


@pytest.mark.parametrize("body", ['{"runs": [{"run_id": 1}], "next": null}', "[]", "null", '{"next": null}'])
async def test_an_answer_of_another_shape_names_both_versions(body: str) -> None:
    async with standing_in(answer(body), HEALTH) as server, FabricClient(server.url, token="t") as client:
        with pytest.raises(AnswerUnusable) as unusable:
            await client.runs.list()
        assert "The server is agent-fabric 99.0" in unusable.value.hint


@pytest.mark.parametrize("body", ["", "{", "\x00", "[" * 100_000, '{"a": NaN'])
async def test_what_is_no_json_is_said_to_be_none(body: str) -> None:
    async with standing_in(answer(body)) as server, FabricClient(server.url, token="t") as client:
        with pytest.raises(AnswerUnusable, match="it is no JSON"):
            await client.runs.list()


async def test_more_than_a_newer_server_tells_is_left_out() -> None:
    body = json.dumps({"runs": [], "next": None, "colour": "blue"})
    async with standing_in(answer(body)) as server, FabricClient(server.url, token="t") as client:
        assert await client.runs.list() == []


async def test_who_only_looks_asks_again_when_the_connection_breaks() -> None:
    async with standing_in(BROKEN, BROKEN, LIST) as server, FabricClient(server.url, token="t") as client:
        assert await client.runs.list() == []
        assert len(server.requests) == 3


async def test_who_starts_something_asks_again_with_the_same_key_and_never_with_an_old_one() -> None:
    async with standing_in(BROKEN, STARTED, STARTED) as server, FabricClient(server.url, token="t") as client:
        await client.runs.start(WISH)
        await client.runs.start(WISH)
        first, again, second = server.sent("Idempotency-Key")
        assert first == again != second


async def test_a_connection_that_stays_broken_is_given_up() -> None:
    async with standing_in(BROKEN) as server, FabricClient(server.url, token="t") as client:
        with pytest.raises(ServerUnreachable, match="broke"):
            await client.runs.start(WISH)
        assert len(server.requests) == 3
        assert len(set(server.sent("Idempotency-Key"))) == 1


async def test_what_the_server_said_is_not_asked_again() -> None:
    busy = answer(
        '{"code": "server_busy", "detail": "too much", "hint": "later"}',
        status="503 Service Unavailable",
        kind="application/problem+json",
    )
    async with standing_in(busy) as server, FabricClient(server.url, token="t") as client:
        with pytest.raises(ServerBusy, match="too much"):
            await client.runs.start(WISH)
        assert len(server.requests) == 1


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever() -> None:
    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        listening(listen) as port,
        FabricClient(f"http://127.0.0.1:{port}", token="t", timeout_s=0.2) as client,
    ):
        with pytest.raises(ServerTimedOut, match=r"within 0\.2 s"):
            await client.runs.list()


async def test_https_where_there_is_none_says_so() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(refuse) as port, FabricClient(f"https://127.0.0.1:{port}", token="t") as client:
        with pytest.raises(ServerUnreachable, match="This port does not speak TLS") as unsafe:
            await client.runs.list()
        assert "http://" in unsafe.value.hint


async def test_a_client_that_was_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with FabricClient"):
        await FabricClient("http://127.0.0.1:1").runs.list()


@pytest.mark.proves("C15")
@pytest.mark.parametrize("room", [700, 3_000, 9_000])
async def test_a_stream_that_is_cut_again_and_again_loses_no_event_and_repeats_none(tmp_path: Path, room: int) -> None:
    async with served(tmp_path) as server:
        async with (
            bridge(server.port, lambda number: room + 900 * number if number < 12 else None) as way,
            FabricClient(f"http://127.0.0.1:{way.here}", token=server.token) as client,
        ):
            run_id = (await _direct(server.port, server.token, "do it [[script=long]]")).run_id
            seen = [each async for each in client.runs.follow(run_id)]
        stored = list(await server.fabric.records.runs.read(run_id))
    assert way.connections > 2
    assert [each for each in seen if isinstance(each, Event)] == stored
    assert isinstance(seen[-1], RunResult)
    assert seen[-1].status is RunStatus.COMPLETED


async def test_a_run_that_is_gone_in_between_ends_the_stream_with_an_error(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as server,
        FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client,
    ):
        with pytest.raises(RunNotFound):
            async for _ in client.runs.follow("nothing"):
                pass


@pytest.mark.proves("DU-10")
async def test_patience_begins_when_the_server_is_gone_and_not_with_the_last_event() -> None:
    payload = result_object(outcome(), "/runs/1234")
    done = json.dumps({"kind": "_run_done_", "run_id": "1234", "payload": payload})
    connections, back_at = 0, 0.0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, back_at
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        if time.monotonic() < back_at:
            return  # it is being started anew
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        writer.write(
            b'event: notice\ndata: {"text": "begun"}\n\n' if connections == 1 else f"data: {done}\n\n".encode()
        )
        await writer.drain()
        if connections == 1:
            await asyncio.sleep(4.3)  # longer than the patience: a model that thinks
            back_at = time.monotonic() + 1.8

    async with listening(serve) as port, FabricClient(f"http://127.0.0.1:{port}", token="t") as client:
        seen = [each async for each in client.runs.follow("1234", patience_s=4.0)]
    begun, *waited, result = seen
    assert begun == Notice("begun")
    assert waited
    assert all(isinstance(each, Notice) and each.progress and "does not answer" in each.text for each in waited)
    assert isinstance(result, RunResult)


async def _direct(port: int, token: str, prompt: str) -> RunResult:
    async with FabricClient(f"http://127.0.0.1:{port}", token=token) as client:
        return await client.run(prompt, pack="engineering")
