"""Requests sent back to back are answered in order and parsed one at a time; those that wait cost their bytes only."""

import asyncio
import json
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from agent_fabric.interfaces.http.connection import HEAD_BYTES, Connection
from agent_fabric.interfaces.http.server import open_listener
from integration.http.served import PATIENCE_S, served, task

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
MANY_BYTES = 1_000
"""More than the client of the test itself sends at once."""
READ_BYTES = 512 * 1024
"""More than one read of the event loop; what a client sends behind a request that waits is read once at most."""


class Counting(Connection):
    """Counts what was read of many requests, and the requests that were parsed before their turn."""

    read_bytes: ClassVar = 0
    ahead: ClassVar = 0

    def data_received(self, data: bytes) -> None:
        type(self).read_bytes += len(data) if len(data) > MANY_BYTES else 0
        super().data_received(data)
        type(self).ahead = max(self.ahead, len(self.pipeline))


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path and the length of the body; some answers are sent before the body is read, some late."""
    if scope["type"] == "lifespan":
        return
    size, more = 0, not scope["path"].startswith("/early")
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    if scope["path"].startswith("/late"):
        await asyncio.sleep(0.001)
    body = b"%s %d\n" % (scope["path"].encode(), size)
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving(connection: type[Connection]) -> AsyncIterator[int]:
    with open_listener("127.0.0.1", 0) as listener:
        config = uvicorn.Config(
            echo, http=connection, lifespan="off", ws="none", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server._serve([listener]))  # `serve` takes over signals
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await running


def plain(path: str, _: random.Random) -> tuple[bytes, int]:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), 0


def with_length(path: str, chance: random.Random) -> tuple[bytes, int]:
    body = b"".join(chance.choices([b"\r\n", b"\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100], k=chance.randrange(6)))
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return head + body, len(body)


def in_chunks(path: str, chance: random.Random) -> tuple[bytes, int]:
    pieces = chance.choices([b"\r\n", b"\n\r\n", b"0\r\n\r\n", b"y" * 300], k=chance.randrange(6))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    trailer = chance.choice([b"", b"X-Late: 1\r\n"])
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + chunks + b"0\r\n" + trailer + b"\r\n", sum(map(len, pieces))


KINDS: tuple[Callable[[str, random.Random], tuple[bytes, int]], ...] = (plain, with_length, in_chunks)


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_is_sent_back_to_back_and_however_it_is_cut_is_answered_in_order(seed: int) -> None:
    chance = random.Random(seed)
    data, expected = b"", b""
    for number in range(chance.randrange(2, 40)):
        path = f"/{chance.choice(['late', 'plain', 'early'])}{number}"
        request, size = chance.choice(KINDS)(path, chance)
        data += chance.choice([b"", b"", b"\r\n"]) + request
        expected += b"%s %d\n" % (path.encode(), 0 if path.startswith("/early") else size)
    cuts = sorted(chance.sample(range(1, len(data)), k=min(chance.randrange(30), len(data) - 1)))
    Counting.ahead = 0
    async with serving(Counting) as port, asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            writer.write(data[start:end])
            await asyncio.sleep(0 if chance.random() < 0.5 else 0.001)
        received = b""
        while bodies(received) != expected:
            piece = await reader.read(65_536)
            assert piece, received
            received += piece
        writer.close()
    assert Counting.ahead == 0


def bodies(answers: bytes) -> bytes:
    return b"".join(part.partition(b"\r\n\r\n")[2] for part in answers.split(b"HTTP/1.1 200 OK\r\n")[1:])


@pytest.mark.parametrize("size", [HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1])
@pytest.mark.parametrize("cut", [1, 4_000, HEAD_BYTES - 2, 10**6])
async def test_a_head_may_be_as_long_as_the_guide_says_and_not_a_byte_longer(size: int, cut: int) -> None:
    head = b"GET /plain HTTP/1.1\r\nHost: x\r\nX-Long: "
    head += b"x" * (size - len(head) - 4) + b"\r\n\r\n"
    async with serving(Connection) as port, asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head[:cut])
        await asyncio.sleep(0.01)
        writer.write(head[cut:] + b"GET /plain HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 431" if size > HEAD_BYTES else b"HTTP/1.1 200"), answer[:80]
    assert answer.count(b"HTTP/1.1") == (1 if size > HEAD_BYTES else 2)


async def test_requests_behind_one_that_is_being_answered_wait_outside_the_server(tmp_path: Path) -> None:
    async with served(tmp_path, connection=Counting) as server:
        body = json.dumps(task("hang")).encode()
        first = f"POST /run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n".encode()
        first += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        Counting.read_bytes = Counting.ahead = 0
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(first)
        await server.model.wait_for_requests(1, timeout_s=PATIENCE_S)
        for _ in range(20):
            writer.write(HEALTH * 25_000)
            assert (await server.client.get("/health")).status_code == 200
        assert Counting.read_bytes < READ_BYTES
        assert Counting.ahead == 0
        writer.transport.abort()


async def test_a_client_without_credentials_that_reads_no_answer_is_not_read_either(tmp_path: Path) -> None:
    async with served(tmp_path, connection=Counting) as server:
        Counting.read_bytes = Counting.ahead = 0
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        small.setblocking(False)
        await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", server.port))
        _, writer = await asyncio.open_connection(sock=small, limit=1_000)
        writer.write(HEALTH * 250_000)
        before = -1
        while before < Counting.read_bytes:  # until the answers fill what is between us
            before = Counting.read_bytes
            for _ in range(20):
                assert (await server.client.get("/health")).status_code == 200
        assert Counting.read_bytes < len(HEALTH) * 250_000 / 2
        assert Counting.ahead == 0
        writer.transport.abort()


class Frugal(Connection):
    """Keeps little for requests that wait."""

    max_pending_bytes = 1_000


async def test_waiting_requests_of_all_connections_together_are_bounded() -> None:
    request = b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n"
    async with serving(Frugal) as port, asyncio.timeout(PATIENCE_S):

        async def answers(count: int) -> int:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request * count)
            received = b""
            while received.count(b"HTTP/1.1 200") < count and (piece := await reader.read(65_536)):
                received += piece
            writer.close()
            return received.count(b"HTTP/1.1 200")

        assert await answers(20) == 20
        found = await asyncio.gather(*(answers(30) for _ in range(10)))
        assert all(count >= 1 for count in found), "the first is always answered"
        assert any(count < 30 for count in found), "then the connection is closed"
        assert await answers(20) == 20, "what was kept is given back"
