"""The access log of a real server, over real sockets."""

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import StreamingResponse

from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.infrastructure.observability.operations_log import (
    bind,
    close_operations_log,
    configure_operations_log,
    operations_log,
)
from agent_fabric.interfaces.http.access_log import AccessLog

pytestmark = pytest.mark.proves("AF-149")
PATIENCE_S = 60.0


def application(left: asyncio.Event) -> FastAPI:
    app = FastAPI()
    runs = APIRouter(prefix="/runs")

    @app.get("/health")
    async def health(fail: bool = False) -> Response:
        return Response(status_code=503 if fail else 200)

    @app.get("/busy")
    async def busy() -> Response:
        return Response(status_code=503)

    @runs.get("/{run_id}/files/{name}")
    async def file(run_id: str, name: str) -> str:
        operations_log("inside").info("looking", name=name)
        return "text"

    @app.post("/run")
    async def run() -> dict[str, str]:
        bind(run_id="r7")
        return {"status": "completed"}

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            for number in range(5):
                yield b"data: %d\n\n" % number

        return StreamingResponse(body(), media_type="text/event-stream")

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"data: x\n\n"
                    await asyncio.sleep(0.005)
            finally:
                left.set()

        return StreamingResponse(body(), media_type="text/event-stream")

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("token=abc is wrong")

    app.include_router(runs, prefix="/api")
    return app


class Served:
    """A server, a client of it, and what it logged."""

    def __init__(self, client: httpx2.AsyncClient, stream: io.StringIO, left: asyncio.Event) -> None:
        self.client = client
        self.left = left
        self._stream = stream

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    async def requests(self, count: int) -> list[dict[str, Any]]:
        """Return the lines about requests, as soon as there are so many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := [line for line in self.lines() if line["event"] == "http_request"]) < count:
                await asyncio.sleep(0.005)
        return found


@asynccontextmanager
async def serving(level: Any = "info") -> AsyncIterator[Served]:
    stream, left = io.StringIO(), asyncio.Event()
    configure_operations_log(LogConfig(level=level), (), stream)
    server = uvicorn.Server(uvicorn.Config(AccessLog(application(left)), log_config=None, access_log=False))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    task = asyncio.create_task(server._serve([listener]))  # `serve` takes over signals
    try:
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", trust_env=False, timeout=PATIENCE_S
        ) as client:
            async with asyncio.timeout(PATIENCE_S):
                while not server.started:
                    await asyncio.sleep(0.005)
            yield Served(client, stream, left)
    finally:
        server.should_exit = True
        await task
        listener.close()
        close_operations_log()


def without_place(line: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in line.items()
        if key not in {"timestamp", "logger", "event", "duration_ms", "request_id"}
    }


async def test_a_request_is_one_line_with_its_route() -> None:
    async with serving() as served:
        await served.client.get("/api/runs/r1/files/files?token=abc&limit=3&bare")
        (line,) = await served.requests(1)
    assert without_place(line) == {
        "level": "info",
        "method": "GET",
        "path": "/api/runs/{run_id}/files/{name}",
        "status": 200,
        "bytes": 6,
        "client": "127.0.0.1",
        "query": "token=[redacted]&limit=[redacted]&[redacted]",
        "run_id": "r1",
    }
    assert line["duration_ms"] >= 0


async def test_an_unknown_path_is_logged_as_it_came() -> None:
    async with serving() as served:
        await served.client.get("/no/such%0Aplace")
        (line,) = await served.requests(1)
    assert (line["status"], line["path"]) == (404, "/no/such\nplace")


@pytest.mark.parametrize("given", ["abc-123.X_y:z", "00000000-0000-4000-8000-000000000001"])
async def test_a_plain_request_id_is_taken_and_sent_back(given: str) -> None:
    async with serving() as served:
        answer = await served.client.get("/api/runs/r1/files/n", headers={"X-Request-Id": given})
        await served.requests(1)
        lines = [line for line in served.lines() if line["logger"] in {"http", "inside"}]
    assert answer.headers["x-request-id"] == given
    assert [(line["event"], line["request_id"]) for line in lines] == [("looking", given), ("http_request", given)]


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 65, "<script>", "ümlaut"])
async def test_any_other_request_id_is_replaced(given: str | None) -> None:
    async with serving() as served:
        headers = {} if given is None else {b"X-Request-Id": given.encode()}
        async with asyncio.timeout(PATIENCE_S):
            answer = await _raw_get(served, "/health?fail=1", headers)
        (line,) = await served.requests(1)
    echoed = next(value for name, value in answer if name == "x-request-id")
    assert echoed == line["request_id"]
    assert len(echoed) == 32
    assert echoed.isalnum()


async def _raw_get(served: Served, path: str, headers: dict[bytes, bytes]) -> list[tuple[str, str]]:
    """Send what a proper client would not, and return the answer's headers."""
    url = served.client.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    lines = [b"GET %s HTTP/1.1" % path.encode(), b"Host: h", b"Connection: close"]
    writer.write(b"\r\n".join([*lines, *(b"%s: %s" % item for item in headers.items()), b"", b""]))
    head = (await reader.read()).partition(b"\r\n\r\n")[0].decode("latin-1")
    writer.close()
    await writer.wait_closed()
    return [(name.lower(), value) for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])]


async def test_ids_of_one_request_are_not_on_the_next() -> None:
    async with serving() as served:
        for _ in range(2):
            await served.client.post("/run")
        await served.client.get("/stream")
        first, second, third = await served.requests(3)
    assert first["run_id"] == second["run_id"] == "r7"
    assert "run_id" not in third
    assert len({line["request_id"] for line in (first, second, third)}) == 3


@pytest.mark.parametrize(("level", "path", "seen"), [("info", "/health", 0), ("debug", "/health", 1)])
async def test_a_healthy_answer_is_only_worth_a_line_when_looking_for_faults(level: str, path: str, seen: int) -> None:
    async with serving(level) as served:
        await served.client.get(path)
        await served.client.get("/stream")
        lines = await served.requests(1 + seen)
    assert [line["path"] for line in lines].count("/health") == seen


async def test_an_unhealthy_one_always_is() -> None:
    async with serving("error") as served:
        await served.client.get("/health?fail=1")
        (line,) = await served.requests(1)
    assert (line["level"], line["status"]) == ("error", 503)


async def test_too_much_to_do_is_a_warning() -> None:
    async with serving("warning") as served:
        await served.client.get("/busy")
        (line,) = await served.requests(1)
    assert (line["level"], line["status"]) == ("warning", 503)


async def test_a_stream_is_logged_when_it_has_ended() -> None:
    async with serving() as served, served.client.stream("GET", "/stream") as answer:
        body = await answer.aread()
        (line,) = await served.requests(1)
    assert line["bytes"] == len(body) == 45
    assert "cut_off" not in line


async def test_a_stream_whose_reader_leaves_is_logged_as_cut_off() -> None:
    async with serving() as served:
        async with served.client.stream("GET", "/endless") as answer:
            async for _ in answer.aiter_bytes():
                break
            assert not [line for line in served.lines() if line["event"] == "http_request"]
        async with asyncio.timeout(PATIENCE_S):
            await served.left.wait()
        (line,) = await served.requests(1)
    assert (line["status"], line["cut_off"]) == (200, True)


async def test_an_error_is_answered_with_the_id_under_which_it_is_logged() -> None:
    async with serving() as served:
        answer = await served.client.get("/broken")
        (line,) = await served.requests(1)
        async with asyncio.timeout(PATIENCE_S):
            while not (traces := [line for line in served.lines() if "exception" in line]):
                await asyncio.sleep(0.005)
    assert (line["level"], line["status"], answer.status_code) == ("error", 500, 500)
    (trace,) = traces
    assert trace["logger"] == "uvicorn.error"
    assert trace["exception"][0]["exc_value"] == "token=[redacted] is wrong"
    assert answer.headers["x-request-id"] == line["request_id"] == trace["request_id"]


async def test_what_is_no_request_passes() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        return {}

    await AccessLog(app)({"type": "lifespan"}, nothing, nothing)
    assert seen == ["lifespan"]
