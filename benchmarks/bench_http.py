"""HTTP beside its floor: `/health` and one-step runs, requests per second and server CPU per request.

    python benchmarks/bench_http.py [--rounds 5] [--seconds 3] [--at-once 32]

Floor: a bare FastAPI app under the same uvicorn, with an agent loop over aiohttp that stores nothing, or at least a
folder and a log file for each run (`raw_http_agent.py`). A one-step run is one call of the tool `add`, then the
answer: two questions to a model that answers at once. Ours (`adding_pack.py`) is created, driven and recorded durably
before it is answered. Rounds alternate, so that noise of the machine meets all. The load comes from this process.

Then runs are measured while `--readers` clients follow the events of one long run without ever reading them, and with
the same long run but nobody following it.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from mock_model import serving

HERE = Path(__file__).parent
FILLED_S = 2.0
"""Until nothing more fits between the server and a client that does not read."""
HEALTH = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def post(path: bytes, body: bytes, token: str = "") -> bytes:
    shown = f"authorization: Bearer {token}\r\n".encode() if token else b""
    head = b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n"
    return head % (path, shown, len(body)) + body


ONE_STEP = post(b"/run", b'{"prompt": "[steps=1] add"}')
ONE_STEP_KEPT = post(b"/run-kept", b'{"prompt": "[steps=1] add"}')
ONE_STEP_OURS = b'{"prompt": "[steps=1] add", "pack": "adding"}'


class Client(asyncio.Protocol):
    """Sends one request after another until it is told to stop; counts answers."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.answers = 0
        self.failures = 0
        self.stopping = False
        self.buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        self.answers += 1
        self.failures += not head.startswith(b"HTTP/1.1 200") or b'"error"' in rest
        if self.stopping:
            self.transport.close()
            self.done.set_result(None)
        else:
            self.transport.write(self.request)


@dataclass
class Measured:
    """Rates and costs, one of each a round."""

    per_s: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def row(self, name: str, floor: "Measured | None" = None) -> str:
        ratio = f"{statistics.median(self.per_s) / statistics.median(floor.per_s):.2f}" if floor else ""
        return (
            f"| {name} | {statistics.median(self.per_s):.0f} ({max(self.per_s):.0f}) "
            f"| {statistics.median(self.cpu_ms):.2f} ({min(self.cpu_ms):.2f}) | {ratio} |"
        )


class Server:
    """A server as a process."""

    def __init__(self, command: list[str], port: int, environment: dict[str, str] | None = None) -> None:
        self.port = port
        self.token = ""
        self.process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.05)

    @property
    def one_step(self) -> bytes:
        """A one-step run of ours."""
        return post(b"/run", ONE_STEP_OURS, self.token)

    def peak_mb(self) -> float:
        """Memory at its most."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    async def measure(self, request: bytes, at_once: int, seconds: float, into: Measured) -> None:
        loop = asyncio.get_running_loop()
        clients = [
            (await loop.create_connection(lambda: Client(request), "127.0.0.1", self.port))[1] for _ in range(at_once)
        ]
        await asyncio.sleep(0.5)
        cpu, started = self.cpu_s(), time.monotonic()
        before = sum(client.answers for client in clients)
        await asyncio.sleep(seconds)
        answers = sum(client.answers for client in clients) - before
        into.per_s.append(answers / (time.monotonic() - started))
        into.cpu_ms.append(1000 * (self.cpu_s() - cpu) / max(answers, 1))
        for client in clients:
            client.stopping = True
        await asyncio.wait_for(asyncio.gather(*(client.done for client in clients)), 30)
        failures = sum(client.failures for client in clients)
        if failures:
            raise SystemExit(f"{failures} requests failed")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def compare(raw: Server, ours: Server, rounds: int, seconds: float, at_once: int) -> None:
    rows = {name: Measured() for name in ("raw /health", "our /health", "raw run", "kept run", "our run")}
    for _ in range(rounds):
        await raw.measure(HEALTH, at_once, seconds, rows["raw /health"])
        await ours.measure(HEALTH, at_once, seconds, rows["our /health"])
        await raw.measure(ONE_STEP, at_once, seconds, rows["raw run"])
        await raw.measure(ONE_STEP_KEPT, at_once, seconds, rows["kept run"])
        await ours.measure(ours.one_step, at_once, seconds, rows["our run"])
    print(f"\n{at_once} at once, {rounds} rounds of {seconds:g} s: median (best round)\n")
    print("| | requests per second | server CPU ms | ratio of rates |\n|---|--:|--:|--:|")
    print(rows["raw /health"].row("FastAPI's own `/health`"))
    print(rows["our /health"].row("`/health`", rows["raw /health"]))
    print(rows["raw run"].row("raw one-step agent, nothing stored"))
    print(rows["kept run"].row("the same with a folder and a log file", rows["raw run"]))
    print(rows["our run"].row("durable one-step run", rows["raw run"]))


async def with_readers(ours: Server, readers: int, rounds: int, seconds: float, at_once: int) -> None:
    """Measure runs while many clients follow a long one and never read, and while nobody does."""
    alone, watched = Measured(), Measured()
    for _ in range(rounds):
        for count, into in ((0, alone), (readers, watched)):
            run_id = long_run(ours)
            sockets = deaf_readers(ours, run_id, count)
            await asyncio.sleep(FILLED_S)
            await ours.measure(ours.one_step, at_once, seconds, into)
            for each in sockets:
                each.close()
            ask(ours.port, post(f"/runs/{run_id}/cancel".encode(), b"{}", ours.token))
    print(f"\n{at_once} runs at once beside a long one\n")
    print("| followed by | runs per second | server CPU ms | ratio of rates |\n|---|--:|--:|--:|")
    print(alone.row("nobody"))
    print(watched.row(f"{readers} readers that never read", alone))


def long_run(server: Server) -> str:
    """Start a run that goes on for long and makes many events; return its id."""
    task = {"prompt": "[steps=999] [wait=10] go on", "pack": "adding", "max_steps": 1_000}
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(post(b"/run/stream", json.dumps(task).encode(), server.token))
    seen = b""
    while not (found := re.search(rb'"run_id": ?"([0-9a-f-]{36})"', seen)):
        seen += connection.recv(65_536)
    connection.close()  # the run goes on
    return found.group(1).decode()


def deaf_readers(server: Server, run_id: str, count: int) -> list[socket.socket]:
    """Return readers that the server has begun to answer: letting them in is not what is measured."""
    readers = [deaf_reader(server, run_id) for _ in range(count)]
    waiting = selectors.DefaultSelector()
    for reader in readers:
        waiting.register(reader, selectors.EVENT_READ)
    deadline = time.monotonic() + 60
    while waiting.get_map():
        if time.monotonic() > deadline:
            raise SystemExit("not every reader was answered")
        for ready, _ in waiting.select(1):
            waiting.unregister(ready.fileobj)
    return readers


def deaf_reader(server: Server, run_id: str) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(
        f"GET /runs/{run_id}/events HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n"
        f"authorization: Bearer {server.token}\r\n\r\n".encode()
    )
    return connection


def ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        return connection.recv(65_536)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--readers", type=int, default=500)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder, serving() as base_url:
        environment = {
            "FABRIC_MODELS__QUALITY__BASE_URL": base_url,
            "FABRIC_MODELS__QUALITY__BACKEND": "generic",
            "FABRIC_SPECIALISTS__ADDING__BUILDER": "adding_pack:build",
            "FABRIC_SPECIALISTS__ADDING__DESCRIPTION": "Adds.",
            "PYTHONPATH": str(HERE),
            "XDG_CONFIG_HOME": folder,
        }
        raw_port, our_port = free_port(), free_port()
        raw = Server(
            [sys.executable, str(HERE / "raw_http_agent.py"), base_url, str(raw_port), f"{folder}/raw"], raw_port
        )
        fabric = str(Path(sys.executable).with_name("fabric"))
        ours = Server(
            [fabric, "serve", "--port", str(our_port), "--workspace", f"{folder}/.fabric"], our_port, environment
        )
        ours.token = Path(folder, ".fabric/token").read_text().strip()
        try:
            asyncio.run(compare(raw, ours, options.rounds, options.seconds, options.at_once))
            if options.readers:
                asyncio.run(with_readers(ours, options.readers, options.rounds, options.seconds, options.at_once))
        finally:
            raw.stop()
            ours.stop()


if __name__ == "__main__":
    main()
