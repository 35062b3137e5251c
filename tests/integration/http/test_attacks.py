"""What somebody who looks for a way in, or for a way to bring the server down, has tried: none of it works."""

import asyncio
import json
import socket
import time
from pathlib import Path

import pytest

from agent_fabric.domain.errors import Unauthenticated
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.interfaces.http.bodies import MAX_PROBLEMS
from agent_fabric.interfaces.http.connection import HEAD_BYTES, Connection
from agent_fabric.interfaces.http.gate import MAX_ANONYMOUS_BODY_BYTES
from agent_fabric.interfaces.mcp.over_http import credentials_in
from agent_fabric.testing.scripted_model import Call, Script, Slow
from integration.http.served import DONE, PATIENCE_S, Served, served, task

OWNER = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
CHUNKED = b"Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"


async def sent(server: Served, *pieces: bytes) -> bytes:
    """Send pieces as long as the server takes them, and return its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(PATIENCE_S):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b""  # it did not even listen to the end
    finally:
        writer.transport.abort()


@pytest.mark.proves("A33-010")
async def test_what_stands_behind_a_body_is_no_header(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        late = f"Authorization: Bearer {server.token}\r\n".encode()
        answer = await sent(server, b"POST /run HTTP/1.1\r\n" + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n" + late + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 401"), "no proxy has looked at it"


@pytest.mark.proves("A33-010")
async def test_a_body_behind_an_upgrade_is_not_taken_for_another_request(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        hidden = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
        head = f"POST /runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n".encode()
        head += b"Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(PATIENCE_S):
            writer.write(head % len(hidden))
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.write(hidden)
            answer += await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 422")
        assert b"connection: close" in answer
        assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.proves("A33-123")
@pytest.mark.parametrize("endless", [b"X-Long: abc\r\n" * 10_000, b"x" * 100_000], ids=["many", "one"])
@pytest.mark.parametrize("path", [b"/api/v1/login", b"/run"])
async def test_trailers_without_an_end_are_not_kept(tmp_path: Path, path: bytes, endless: bytes) -> None:
    async with served(tmp_path) as server:
        head = b"POST " + path + b" HTTP/1.1\r\n" + CHUNKED + b"\r\n2\r\n{}\r\n0\r\nX-First: "
        answer = await sent(server, head, *[endless] * 200)
        assert b"200 OK" not in answer
        assert (await server.client.get("/health")).status_code == 200


async def test_a_body_may_come_in_as_small_chunks_as_its_sender_likes(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        wish = json.dumps(task(prompt="do it" + " " * (HEAD_BYTES // 4))).encode()
        key = f"Authorization: Bearer {server.token}\r\n".encode()
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in wish)
        assert len(chunks) > HEAD_BYTES
        answer = await sent(server, b"POST /run HTTP/1.1\r\n" + CHUNKED + key + b"\r\n", chunks, b"0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]


@pytest.mark.slow
@pytest.mark.proves("A33-012")
@pytest.mark.parametrize("path", ["/runs/{}/events", "/v1/responses/resp_{}?stream=true"])
async def test_a_stream_ends_when_the_key_that_opened_it_is_revoked(tmp_path: Path, path: str) -> None:
    steps = tuple(Slow(Call("shell", {"command": f"echo {number}"}), 1.0) for number in range(30))
    async with served(tmp_path, Script(turns=(*steps, DONE))) as server:
        keys = server.fabric.identity.keys
        key = await keys.create("page", by=OWNER, scopes=[Scope.RUNS_READ])
        run_id = (await server.client.post("/runs", json=task())).json()["run_id"]
        del server.client.headers["Authorization"]
        async with (
            asyncio.timeout(PATIENCE_S),
            server.client.stream(
                "GET", path.format(run_id), headers={"X-API-Key": key.secret, "Accept": "text/event-stream"}
            ) as answer,
        ):
            assert answer.status_code == 200
            await keys.revoke(key.key.id, by=OWNER)
            received = b"".join([piece async for piece in answer.aiter_bytes()])
        assert b"_run_" not in received, "it did not wait for the run"
        assert server.fabric.runs.dispatch.find(run_id) is not None, "which goes on"


@pytest.mark.proves("A33-123")
async def test_an_answer_that_nobody_reads_is_given_up(tmp_path: Path) -> None:
    given_up = asyncio.Event()

    class Hasty(Connection):
        unread_s = 0.3

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            given_up.set()

    async with served(tmp_path, connection=Hasty) as server:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
            deaf.connect(("127.0.0.1", server.port))
            deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.wait_for(given_up.wait(), PATIENCE_S)
        whole = await server.client.get("/openapi.json")
        assert whole.json()["paths"], "whoever reads gets all of it"


@pytest.mark.proves("A33-123")
async def test_what_anybody_may_ask_for_costs_next_to_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        del server.client.headers["Authorization"]
        first = await server.client.get("/openapi.json")
        spent = time.process_time()
        for _ in range(20):
            assert (await server.client.get("/openapi.json")).content == first.content
        assert time.process_time() - spent < 2, "it was written anew each time"
        assert (await server.client.head("/openapi.json")).status_code == 200


@pytest.mark.proves("A33-123")
async def test_a_stranger_sends_no_more_than_a_name_and_a_password(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        long = {"username": "ann", "password": "x" * MAX_ANONYMOUS_BODY_BYTES}
        answer = await server.client.post("/api/v1/login", json=long)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
        piece = b"%x\r\n%b\r\n" % (MAX_ANONYMOUS_BODY_BYTES, b"x" * MAX_ANONYMOUS_BODY_BYTES)
        answer_to_chunks = await sent(server, b"POST /api/v1/login HTTP/1.1\r\n" + CHUNKED + b"\r\n", piece, piece)
        assert answer_to_chunks.startswith(b"HTTP/1.1 413")


@pytest.mark.proves("A33-123")
async def test_a_body_that_is_wrong_in_very_many_places_is_answered_in_few_words(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        wrong = {f"k{number}": number for number in range(50_000)}
        answer = await server.client.post("/run", json=wrong)
        assert answer.status_code == 422
        assert len(answer.content) < 1_000
        assert "50,001 problems" in answer.json()["detail"]
        some = {f"k{number}": number for number in range(MAX_PROBLEMS - 1)}
        assert len((await server.client.post("/run", json=some)).json()["errors"]) == MAX_PROBLEMS


@pytest.mark.proves("A33-123")
@pytest.mark.parametrize("path", ["/api/v1/policy/simulate", "/api/v1/agents/validate"])
async def test_whoever_may_only_look_holds_up_nobody_with_a_long_text(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as server, server.another_client() as other:
        long = {"file": "x.yaml", "text": "".join(f"k{number}: 1\n" for number in range(20_000))}
        asked = asyncio.create_task(server.client.post(path, json=long))
        waits = [0.0]
        while not asked.done():
            started = time.monotonic()
            assert (await other.get("/health")).status_code == 200
            waits.append(time.monotonic() - started)
        assert (await asked).status_code in {200, 422}
        assert max(waits) < 5, "everybody else had to wait for it"
        too_long = {**long, "text": "x" * 300_000}
        assert (await server.client.post(path, json=too_long)).status_code == 422


async def test_what_is_somebodys_own_is_kept_by_no_cache_on_the_way(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        for path in ("/runs", "/api/v1/me", "/v1/models", "/metrics"):
            assert (await server.client.get(path)).headers["cache-control"] == "no-store", path
        refused = await server.client.get("/nowhere")
        assert (refused.status_code, refused.headers["cache-control"]) == (404, "no-store")


@pytest.mark.proves("A33-010")
@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Basic abc"}, {"authorization": "Bearer ", "x-api-key": " "}]
)
def test_a_tool_is_never_called_with_the_token_of_the_folder_instead_of_the_callers(headers: dict[str, str]) -> None:
    with pytest.raises(Unauthenticated):
        credentials_in(headers)


def test_a_tool_is_called_with_what_its_caller_has_shown() -> None:
    assert credentials_in({"authorization": "bearer  abc"}) == ("abc", "")
    assert credentials_in({"x-api-key": "a33_abc"}) == ("", "a33_abc")
