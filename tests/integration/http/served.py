"""The real server on a free port, in this process, with a scripted model behind it."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import argon2
import httpx2
import uvicorn
from starlette.routing import BaseRoute

from agent_fabric.bootstrap.server import ServerFabric, build_server
from agent_fabric.config.loader import read_config
from agent_fabric.infrastructure.identity import argon2_passwords
from agent_fabric.infrastructure.identity.local_token import local_token
from agent_fabric.interfaces.http.app import create_app
from agent_fabric.interfaces.http.connection import HEADERS, SOCKETS, Connection
from agent_fabric.interfaces.http.names import names_of
from agent_fabric.interfaces.http.runs.live import LiveRuns
from agent_fabric.interfaces.http.server import open_listener
from agent_fabric.testing.scripted_model import Call, Finish, Hang, Responder, Script, ScriptedModel, Slow
from e2e.fabric_process import Fabric, Started, settings

PATIENCE_S = 120.0
PING = ": ping"
"""How long anything may take on a busy machine. Nobody waits that long unless something hangs."""
TLS = ssl.create_default_context()
"""Made once: reading the certificates takes longer than starting a server."""
QUICK_HASHER = partial(argon2.PasswordHasher, time_cost=1, memory_cost=64, parallelism=1)
"""For passwords that nobody has to guess. What real ones cost is tested in `test_argon2_passwords.py`."""
LOOK = Call("list_files", {"path": "."})
DONE = Finish(summary="all done", artifacts=[], next_steps=[], notes="")
SCRIPT = Script(
    turns=(LOOK, DONE),
    named={
        "hang": (Hang(times=99),),
        "slow": (LOOK, Slow(DONE, 1.0)),
        "slower": (Slow(LOOK, 1.0), Slow(DONE, 1.0)),
        "long": (*(Call("shell", {"command": f"echo {number}"}) for number in range(20)), DONE),
    },
)


def task(script: str = "", **more: Any) -> dict[str, Any]:
    """Return a body for `POST /run`."""
    prompt = f"do it [[script={script}]]" if script else "do it"
    return {"prompt": prompt, "pack": "engineering", **more}


@dataclass
class Served:
    """A server, and a client that talks to it."""

    port: int
    token: str
    """Opens every door."""
    client: httpx2.AsyncClient
    fabric: ServerFabric
    live: LiveRuns
    model: ScriptedModel
    command: Fabric
    """The command line in the same folder."""
    routes: list[BaseRoute]
    """Every door of the server."""
    streams: "list[Stream]" = field(default_factory=list)

    def another_client(self, **more: Any) -> httpx2.AsyncClient:
        """Return one more client; `more` are its options."""
        return httpx2.AsyncClient(base_url=self.client.base_url, headers=bearer(self.token), verify=TLS, **more)

    async def start(self, script: str = "", **more: Any) -> "Stream":
        """Start a run and begin to watch it."""
        return await self.open("POST", "/run/stream", body=task(script, **more))

    async def watch(self, run_id: str, query: str = "", *, last: int | None = None) -> "Stream":
        """Watch a run."""
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        return await self.open("GET", f"/runs/{run_id}/events{query}", headers=headers)

    async def open(self, method: str, path: str, **more: Any) -> "Stream":
        """Send a request, and read the head of the answer."""
        stream = await self.send(method, path, **more)
        stream.head = (await stream.reader.readuntil(b"\r\n\r\n")).decode()
        return stream

    async def send(self, method: str, path: str, **more: Any) -> "Stream":
        """Send a request, and read nothing."""
        headers = {**bearer(self.token), **(more.pop("headers", None) or {})}
        self.streams.append(await Stream.send(self.port, method, path, headers=headers, **more))
        return self.streams[-1]

    async def elsewhere(self, script: str) -> "tuple[Started, str]":
        """Let the command line start a run, and wait until that has asked the model."""
        asked, before = len(self.model.requests), self.command.run_dirs()
        process = await self.command.start("run", task(script)["prompt"], "--pack", "engineering")
        await self.model.wait_for_requests(asked + 1, timeout_s=PATIENCE_S)
        (run_dir,) = set(self.command.run_dirs()) - set(before)
        return process, run_dir.name

    async def status(self, run_id: str) -> str:
        """Tell where a run stands."""
        answer = await self.client.get(f"/runs/{run_id}/status")
        assert answer.status_code == 200, answer.text
        return str(answer.json()["status"])

    async def settled(self, run_id: str) -> dict[str, Any]:
        """Wait for a run's result."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.status(run_id)) in {"running", "waiting"}:
                await asyncio.sleep(0.02)
        result: dict[str, Any] = (await self.client.get(f"/runs/{run_id}")).json()
        return result


class _Server(uvicorn.Server):
    """uvicorn that stops when it is told to and all have left, instead of looking for that ten times a second.

    How a real server stops is tested with real ones, in `tests/e2e/server`.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._told.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while self.server_state.connections or self.server_state.tasks:
                    await asyncio.sleep(0.005)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    script: Script | Responder = SCRIPT,
    *,
    run_index: Mapping[str, Any] | None = None,
    connection: type[Connection] = Connection,
    also: Mapping[str, Any] | None = None,
    **configured: Any,
) -> AsyncIterator[Served]:
    """Serve the fabric folder below `folder`; `configured` are settings of `server`, `also` any others."""
    async with ScriptedModel(script) as model:
        loaded = read_config(
            {}, overrides=settings(model.base_url, server=configured, run_index=run_index or {}, **(also or {}))
        )
        live = LiveRuns()
        with mock.patch.object(argon2_passwords, "PasswordHasher", QUICK_HASHER):
            fabric = build_server(folder / ".fabric", loaded, readers=(live,))
        with open_listener("127.0.0.1", 0) as listener:
            port = listener.getsockname()[1]
            app = create_app(fabric, live, hosts=names_of("127.0.0.1", port, ()), own_url=f"http://127.0.0.1:{port}")
            server = _Server(
                uvicorn.Config(
                    app,
                    http=connection,
                    lifespan="on",
                    log_config=None,
                    timeout_graceful_shutdown=1,
                    headers=HEADERS,
                    **SOCKETS,
                )
            )
            serving = asyncio.create_task(
                server._serve([listener])
            )  # `serve` takes over signals, and the loop never got them back
            token = local_token(folder / ".fabric")
            async with httpx2.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S, headers=bearer(token), verify=TLS
            ) as client:
                while not server.started:
                    await asyncio.sleep(0.005)
                command = Fabric(folder, settings(model.base_url)).by_us()
                server_and_client = Served(port, token, client, fabric, live, model, command, app.routes)
                try:
                    yield server_and_client
                finally:
                    for stream in server_and_client.streams:
                        stream.close()
                    await fabric.stop()
                    live.close()
                    server.stop()
                    await serving


@dataclass
class Stream:
    """A stream of Server-Sent Events, read by hand so that nothing is read unless asked for."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: str = ""
    _unread: str = ""

    @classmethod
    async def send(
        cls, port: int, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> "Stream":
        """Send a request, and read nothing."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Accept: text/event-stream",
            *(["Content-Type: application/json"] if data else []),
            f"Content-Length: {len(data)}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
        return cls(reader, writer)

    @property
    def run_id(self) -> str:
        """The run, as the head tells it."""
        return self.head.split("/runs/")[1].split("/")[0]

    async def frame(self, *, pings: bool = False) -> str:
        """Return the next frame, without signs of life unless they are wanted; empty at the end of the stream."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while "\n\n" not in self._unread:
                    size = int(await self.reader.readline() or b"0", 16)
                    if not size:
                        return ""
                    self._unread += (await self.reader.readexactly(size)).decode()
                    await self.reader.readline()
                frame, _, self._unread = self._unread.partition("\n\n")
                if pings or frame != PING:
                    return frame

    async def frames(self) -> list[str]:
        """Return all frames to the end of the stream."""
        frames = []
        while frame := await self.frame():
            frames.append(frame)
        return frames

    def close(self) -> None:
        """Leave without a word."""
        self.writer.transport.abort()


def bearer(token: str) -> dict[str, str]:
    """Return the header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


def deaf_reader(port: int, token: str, run_id: str, query: str = "") -> socket.socket:
    """Ask for a run's events, and never read them."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    connection.connect(("127.0.0.1", port))
    lines = [
        f"GET /runs/{run_id}/events{query} HTTP/1.1",
        "Host: localhost",
        "Accept: text/event-stream",
        *(f"{name}: {value}" for name, value in bearer(token).items()),
    ]
    connection.sendall("\r\n".join((*lines, "", "")).encode())
    return connection


def data_of(frame: str) -> dict[str, Any]:
    """Return what a frame carries."""
    (line,) = [line for line in frame.split("\n") if line.startswith("data: ")]
    value: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return value


def ids(frames: Sequence[str]) -> list[int]:
    """Return the numbers of the events among frames."""
    return [int(frame.split("\n")[0].removeprefix("id: ")) for frame in frames if frame.startswith("id: ")]
