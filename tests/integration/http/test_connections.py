"""Those who say nothing, or do not come to an end, cost a server that faces a network no more than a moment."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.http.connection import HEAD_BYTES, Connection
from agent_fabric.interfaces.http.server import open_listener
from integration.http.served import PATIENCE_S, served


class Hasty(Connection):
    """Waits only briefly."""

    head_s = 0.3


async def answered(port: int, *pieces: bytes) -> tuple[int, dict[str, Any]]:
    """Send pieces, one after another, and return how the connection was ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            data = await reader.read()
    finally:
        writer.transport.abort()
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"GET /hea",),
        (b"GET /health HTTP/1.1\r\nHost: local",),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: a\r\n", b"X-Slow: b\r\n"),
    ],
)
async def test_whoever_does_not_say_what_they_want_is_sent_away(tmp_path: Path, pieces: tuple[bytes, ...]) -> None:
    async with served(tmp_path, connection=Hasty) as server:
        status, problem = await answered(server.port, *pieces)
        assert (status, problem["code"]) == (408, "request_too_slow")


async def test_no_answer_is_taken_for_something_else_than_it_says_it_is(tmp_path: Path) -> None:
    async with served(tmp_path, connection=Hasty) as server:
        paths = ("/openapi.json", "/runs", "/health", "/api/v1/sessions", "/docs", "/", "/nowhere", "/metrics")
        for path in paths:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Host": "elsewhere.example"}):
                answer = await server.client.get(path, headers=headers)
                assert answer.headers.get_list("x-content-type-options") == ["nosniff"], (path, answer.status_code)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(PATIENCE_S):
            refused = await reader.read()
        writer.close()
        assert refused.startswith(b"HTTP/1.1 408 ")
        assert refused.lower().count(b"x-content-type-options: nosniff") == 1


async def test_whoever_has_said_it_may_wait_for_the_answer_and_come_back_later(tmp_path: Path) -> None:
    async with served(tmp_path, connection=Hasty) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for piece in (request, request, request[:10]):
            await asyncio.sleep(0.2)
            writer.write(piece)
        async with asyncio.timeout(PATIENCE_S):
            data = await reader.read()
        writer.close()
        assert data.count(b"HTTP/1.1 200") == 2
        assert data.count(b"HTTP/1.1 408") == 1
        # A slow answer is nobody's fault.
        assert (await server.client.post("/run", json={"prompt": "do it [[script=slow]]"})).status_code == 200


async def test_headers_without_an_end_are_not_kept(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        line = b"X-Long: " + b"x" * 1_000 + b"\r\n"
        endless = b"GET /health HTTP/1.1\r\n" + line * (HEAD_BYTES // len(line) + 1)
        status, problem = await answered(server.port, endless)
        assert (status, problem["code"]) == (431, "headers_too_large")


def test_an_address_of_another_machine_is_not_blamed_on_the_port() -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.99:0 cannot be used") as refused:
        open_listener("192.0.2.99", 0)
    assert "an address of this machine" in refused.value.hint
