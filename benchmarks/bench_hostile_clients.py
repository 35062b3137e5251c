"""What clients that misbehave cost a server: memory, and how long `/health` takes meanwhile.

    python benchmarks/bench_hostile_clients.py pipeline [--megabytes 30] [--connections 4]
    python benchmarks/bench_hostile_clients.py deaf [--streams 1000] [--megabytes 10] [--seconds 20]
    python benchmarks/bench_hostile_clients.py half [--connections 1000] [--seconds 20]

`pipeline`: every connection sends small requests back to back without waiting for an answer: to a public path and to
one that needs credentials, without any, then with the local token. Once it reads no answer, once it reads them all.
`deaf`: streams of a long log, opened with the local token, from different places, that nobody ever reads.
`half`: connections that send nearly all of the largest body that is allowed, and then nothing: with the local token,
with a signature to be checked behind the body, and without any credentials.
Memory is the resident set of the server process: before, and the most during and after. The server is on loopback.
"""

import argparse
import asyncio
import itertools
import os
import resource
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench_http import HEALTH, Server, free_port

RESIDENT_UNIT = os.sysconf("SC_PAGE_SIZE")
EVENT_BYTES = 50_000
RUN = "ffffffff-0000-4000-8000-000000000000"
SETTLE_S = 3.0


@dataclass
class Watched:
    """Resident memory of a server in MB, its CPU seconds, and seconds that `/health` took."""

    server: Server
    before: float = 0.0
    most: float = 0.0
    cpu_s: float = 0.0
    health_s: list[float] = field(default_factory=list)

    def resident(self) -> float:
        return int(Path(f"/proc/{self.server.process.pid}/statm").read_text().split()[1]) * RESIDENT_UNIT / 1e6

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.before = self.most = self.resident()
        self.cpu_s -= self.server.cpu_s()
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.1):
                self.most = max(self.most, self.resident())

        def ask() -> None:
            while not over.wait(0.2):
                started = time.monotonic()
                with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                    connection.sendall(HEALTH)
                    if connection.recv(4_096).startswith(b"HTTP/1.1 200"):
                        self.health_s.append(time.monotonic() - started)

        threads = [threading.Thread(target=each) for each in (look, ask)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            self.cpu_s += self.server.cpu_s()
            for thread in threads:
                thread.join()

    def row(self, name: str) -> str:
        slowest = f"{max(self.health_s):.2f}" if self.health_s else "none answered"
        return f"| {name} | {self.before:.0f} | {self.most:.0f} | {self.cpu_s:.1f} | {slowest} |"


def flood(port: int, request: bytes, size: int, *, reads: bool) -> None:
    """Send one request over and over until `size` bytes are sent, or nothing more is taken for some seconds."""
    sent, block = 0, request * (65_536 // len(request))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(SETTLE_S)
        if reads:
            threading.Thread(target=read_all, args=(connection,), daemon=True).start()
        with suppress(OSError):  # the server reads no more, or has closed the connection
            while sent < size:
                sent += connection.send(block)
        time.sleep(SETTLE_S)


def read_all(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1_000_000):
            pass


def pipeline(server: Server, megabytes: int, connections: int) -> None:
    shown = f"authorization: Bearer {server.token}\r\n".encode()
    requests = {
        "`/health`, no credentials": HEALTH,
        "`/runs`, no credentials": b"GET /runs HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        "`/runs`, local token": b"GET /runs HTTP/1.1\r\nhost: 127.0.0.1\r\n%s\r\n" % shown,
    }
    print(f"\n{connections} connections that send {megabytes} MB of requests each\n")
    print("| requests | MB before | most | CPU s | slowest `/health` s |\n|---|--:|--:|--:|--:|")
    for (name, request), reads in itertools.product(requests.items(), (False, True)):
        watched = Watched(server)
        with watched.watching():
            send = partial(flood, server.port, request, megabytes * 1_000_000, reads=reads)
            threads = [threading.Thread(target=send) for _ in range(connections)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        print(watched.row(f"{name}, answers {'read' if reads else 'not read'}"), flush=True)


async def write_log(root: Path, megabytes: int) -> None:
    """Put a run of many long events into the store."""
    from agent_fabric.domain.events import Body, Event, GuidanceGiven, RunCompleted, RunCreated
    from agent_fabric.domain.ids import RunId
    from agent_fabric.domain.runs.task import Budget, Profile
    from agent_fabric.infrastructure.clock import SystemClock
    from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
    from agent_fabric.infrastructure.persistence.store import Store

    created = RunCreated(
        prompt="look",
        specialist_id=None,
        model_key="quality",
        network_allowed=True,
        profile=Profile.TASK,
        budget=Budget(max_steps=5),
        workspace="/nowhere",
        sandbox="none",
        policy_version="1",
        fabric_version="0",
    )
    words = "what was read and found, " * (EVENT_BYTES // 25)
    long = [GuidanceGiven(reason="unproven", message=words)] * (megabytes * 20)
    done = RunCompleted(run_id=RunId(RUN), specialist_ids=(), task_force_mode="sequential", payload={})
    store = Store(root / "fabric.db")
    runs = SqlRunRepository(store, SystemClock())
    bodies: list[Body] = [created, *long, done]
    events = [Event(seq, time.time(), None, "", body) for seq, body in enumerate(bodies)]
    await (await runs.create(RunId(RUN), events)).release()
    store.close()


def deaf(server: Server, streams: int, megabytes: int, seconds: float) -> None:
    print(f"\n{streams} streams of a log of {megabytes} MB that nobody reads, for {seconds:g} s\n")
    print("| streams | MB before | most | CPU s | slowest `/health` s |\n|---|--:|--:|--:|--:|")
    for query in ("", "?full=true"):
        watched = Watched(server)
        with watched.watching():
            sockets = [open_stream(server, query, number * 7 % (megabytes * 20)) for number in range(streams)]
            time.sleep(seconds)
            for each in sockets:
                each.close()
            time.sleep(SETTLE_S)
        print(watched.row(f"`/runs/ID/events{query}`"), flush=True)


def open_stream(server: Server, query: str, after: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(
        f"GET /runs/{RUN}/events{query} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n"
        f"last-event-id: {after}\r\nauthorization: Bearer {server.token}\r\n\r\n".encode()
    )
    return connection


def half(server: Server, connections: int, seconds: float) -> None:
    shown = f"authorization: Bearer {server.token}\r\n"
    print(f"\n{connections} bodies of 2 MB of which the end never comes, for {seconds:g} s\n")
    print("| requests | MB before | most | CPU s | slowest `/health` s |\n|---|--:|--:|--:|--:|")
    for name, path, headers in (
        ("`POST /runs`, local token", "/runs", shown),
        ("a webhook, not signed yet", "/api/v1/webhooks/nothing", ""),
        ("`POST /runs`, no credentials", "/runs", ""),
    ):
        watched = Watched(server)
        with watched.watching():
            sockets = [send_half(server, path, headers) for _ in range(connections)]
            time.sleep(seconds)
            for each in sockets:
                each.close()
            time.sleep(SETTLE_S)
        print(watched.row(name), flush=True)


def send_half(server: Server, path: str, headers: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.settimeout(0.5)
    with suppress(OSError):  # the server takes no more, or has closed the connection
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"content-length: 2000000\r\n{headers}\r\n".encode()
            + b" " * 1_900_000
        )
    return connection


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("pipeline", "deaf", "half"))
    parser.add_argument("--megabytes", type=int, default=0)
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    fabric = str(Path(sys.executable).with_name("fabric"))
    with tempfile.TemporaryDirectory() as folder:
        environment = {"XDG_CONFIG_HOME": folder}
        workspace, port = Path(folder, ".fabric"), free_port()
        server = Server([fabric, "serve", "--port", str(port), "--workspace", str(workspace)], port, environment)
        server.token = (workspace / "token").read_text().strip()
        try:
            if options.what == "pipeline":
                pipeline(server, options.megabytes or 30, options.connections or 4)
            elif options.what == "half":
                half(server, options.connections or 1_000, options.seconds)
            else:
                asyncio.run(write_log(workspace, options.megabytes or 10))
                deaf(server, options.streams, options.megabytes or 10, options.seconds)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
