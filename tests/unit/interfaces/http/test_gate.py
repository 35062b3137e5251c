"""Who may ask: programs of this machine, and pages that the server itself delivered."""

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from agent_fabric.interfaces.http.gate import Gate

PORT = 8787


async def answer(headers: dict[str, str], *more: tuple[str, str], method: str = "GET") -> int:
    """Send a request through the gate; return its status, 200 when it was let in."""

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    named = [(name.encode(), value.encode()) for name, value in (*headers.items(), *more)]
    scope: dict[str, Any] = {"type": "http", "method": method, "headers": named}
    await Gate(inside, port=PORT, max_body_bytes=10)(scope, receive, send)
    (status,) = statuses
    return status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8787", 200),
        ("127.0.0.1", 200),
        ("localhost:8787", 200),
        ("LocalHost", 200),
        ("[::1]:8787", 200),
        ("[::1]", 200),
        ("", 421),
        ("127.0.0.1:8788", 421),
        ("127.0.0.1:", 421),
        ("127.0.0.1.", 421),
        ("localhost.", 421),
        ("::1", 421),
        ("0.0.0.0:8787", 421),
        ("127.0.0.2", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:8787", 421),
        ("127.0.0.1@evil.example", 421),
        ("127.0.0.1:8787, evil.example", 421),
    ],
)
async def test_only_names_of_this_machine_are_answered(host: str, status: int) -> None:
    assert await answer({"host": host}) == status


async def test_without_a_name_or_with_two_nobody_is_answered() -> None:
    assert await answer({}) == 421
    assert await answer({"host": "localhost"}, ("host", "localhost")) == 421
    assert await answer({"host": "localhost"}, ("host", "evil.example")) == 421


async def test_what_may_be_there_once_is_refused_when_it_is_there_twice() -> None:
    assert await answer({"host": ""}, ("host", "localhost")) == 421
    assert await answer({"host": "localhost", "origin": "http://evil.example"}, ("origin", "http://localhost")) == 403
    typed = {"host": "localhost", "content-length": "2", "content-type": "text/plain"}
    assert await answer(typed, ("content-type", "application/json"), method="POST") == 415


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8787", 200),
        ("http://localhost:8787", 200),
        ("http://[::1]:8787", 200),
        ("null", 403),
        ("http://127.0.0.1:3000", 403),
        ("https://127.0.0.1:8787", 403),
        ("http://evil.example", 403),
        ("http://localhost.evil.example:8787", 403),
        ("file://", 403),
        ("chrome-extension://abc", 403),
    ],
)
async def test_pages_of_others_are_refused(origin: str, status: int) -> None:
    assert await answer({"host": "localhost:8787", "origin": origin}) == status
    assert await answer({"host": "localhost:8787", "origin": origin}, method="POST") == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": "0"}, 200),
        ({"content-length": "10", "content-type": "application/json"}, 200),
        ({"content-length": "10", "content-type": "Application/JSON; charset=utf-8"}, 200),
        ({"content-length": "10", "content-type": "application/vnd.x+json"}, 200),
        ({"transfer-encoding": "chunked", "content-type": "application/json"}, 200),
        ({"content-length": "11", "content-type": "application/json"}, 413),
        ({"content-length": "10"}, 415),
        ({"content-length": "10", "content-type": "text/plain"}, 415),
        ({"content-length": "10", "content-type": "text/x+json"}, 415),
        ({"content-length": "10", "content-type": "application/jsonp"}, 415),
        ({"transfer-encoding": "chunked"}, 415),
    ],
)
async def test_bodies_are_json_and_not_too_large(headers: dict[str, str], status: int) -> None:
    assert await answer({"host": "localhost", **headers}, method="POST") == status
