"""What a hub costs with many machines: memory, commands, fan-out, reconnects, silence.

    python benchmarks/bench_fleet.py [--nodes 1000] [--commands 500] [--drops 10] [--processes 0]

The hub is a process of its own. The nodes are light ones in this process: they have keys, show who they are, and keep
no spool. In the same run, beside them: as many plain `websockets` connections to a plain server, and the time of one
fsync. `--processes N` starts N true nodes, stops them without a word, and measures until the hub says offline.
"""

import argparse
import asyncio
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from websockets.asyncio.client import connect  # noqa: E402 - the path comes first
from websockets.asyncio.server import serve  # noqa: E402

from agent_fabric.application.fleet.json_rpc import RpcPeer  # noqa: E402
from agent_fabric.domain.fleet.handshake import node_message  # noqa: E402
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS  # noqa: E402
from agent_fabric.domain.fleet.protocol import SOCKET_PATH, Method  # noqa: E402
from agent_fabric.infrastructure.fleet.signing import SigningKey  # noqa: E402
from agent_fabric.infrastructure.identity.local_token import local_token  # noqa: E402
from agent_fabric.infrastructure.node.websocket import WebSocket  # noqa: E402
from integration.fleet.machines import OPEN, enrol, until_status  # noqa: E402

START_TIMEOUT_S = 60.0
BACK_TIMEOUT_S = 60.0
AT_ONCE = 64


@dataclass(slots=True)
class LightNode:
    """A node that answers at once and remembers nothing but its state."""

    url: str
    token: str
    name: str
    key: SigningKey = field(default_factory=SigningKey.new)
    agent_id: str = ""
    hub_key: str = ""
    state: str = ""
    socket: WebSocket | None = None
    tasks: "list[asyncio.Task[None]]" = field(default_factory=list)

    async def join(self, client: httpx2.AsyncClient) -> None:
        """Enrol."""
        body = {"token": self.token, "public_key": self.key.public, "name": self.name, "os_info": {}}
        told = (await client.post("/api/v1/nodes/join", json=body)).json()
        self.agent_id, self.hub_key = told["agent_id"], told["hub_key"]

    async def connect(self) -> None:
        """Connect, and show who this is."""
        self.socket = await WebSocket.connect(f"{self.url.replace('http', 'ws')}{SOCKET_PATH}")
        peer = RpcPeer(self.socket.send, self._answer)
        self.tasks = [asyncio.create_task(self._read(self.socket, peer))]
        about = {"public_key": self.key.public, "nonce": "n", "uid": 1000, "floor": {"profile": "open"}}
        tools = {"native_tools": list(NODE_TOOLS)}
        told = await peer.call(
            Method.IDENTIFY, {"agent_id": self.agent_id, "capabilities": tools, "node": about}, timeout_s=60.0
        )
        message = node_message(self.agent_id, self.hub_key, told["challenge"], self.state)
        proof = {"signature": self.key.sign(message), "state": self.state}
        told = await peer.call(Method.PROVE, proof, timeout_s=60.0)
        self.state = told["state"]
        self.tasks.append(asyncio.create_task(self._beat(peer, float(told["heartbeat_s"]))))

    async def drop(self) -> None:
        """End the connection without a word."""
        for task in self.tasks:
            task.cancel()
        if self.socket is not None:
            self.socket._writer.transport.abort()  # noqa: SLF001 - a cable that is pulled out says nothing

    async def _read(self, socket: WebSocket, peer: RpcPeer) -> None:
        while True:
            await peer.receive(await socket.receive())

    async def _beat(self, peer: RpcPeer, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await peer.call(Method.HEARTBEAT, {"busy": 0}, timeout_s=60.0)

    async def _answer(self, method: str, _: Mapping[str, Any]) -> Any:
        return {"status": "success", "exit_code": 0, "stdout": ""} if method == Method.EXECUTE else {}


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def memory_kb(pid: int) -> int:
    """Return what a process has in memory and shares with nobody."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def fsync_ms(folder: Path, times: int = 100) -> float:
    """Return the median time of one small write with fsync."""
    taken = []
    with (folder / "fsync").open("wb") as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - began) * 1_000)
    return statistics.median(taken)


async def everybody(work: list[Any]) -> None:
    """Do many things, a few dozen at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(each: Any) -> None:
        async with slots:
            await each

    await asyncio.gather(*map(one, work))


async def started(client: httpx2.AsyncClient) -> None:
    """Wait until the hub answers."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            try:
                if (await client.get("/ready")).status_code == 200:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.05)


async def online(client: httpx2.AsyncClient) -> int:
    """Return how many nodes the hub holds for online."""
    found = (await client.get("/api/v1/nodes")).json()["nodes"]
    return sum(node["status"] == "online" for node in found)


async def is_online(client: httpx2.AsyncClient, name: str) -> bool:
    """Tell whether the hub holds a node for online."""
    return bool((await client.get(f"/api/v1/nodes/{name}")).json()["status"] == "online")


async def plain_sockets(count: int) -> float:
    """Return what a plain server needs for each idle connection, in KB; client and server are one process."""
    port = free_port()
    async with serve(lambda each: each.wait_closed(), "127.0.0.1", port, compression=None):
        before = memory_kb(os.getpid())
        kept = [await connect(f"ws://127.0.0.1:{port}", compression=None) for _ in range(count)]
        used = memory_kb(os.getpid()) - before
        await asyncio.gather(*(each.close() for each in kept))
    return used / count / 2


async def timed_command(client: httpx2.AsyncClient, name: str) -> float:
    """Return how long one command takes, from the question to the answer, in milliseconds."""
    body = {"tool_name": "run_command", "arguments": {"command": "uptime"}}
    began = time.perf_counter()
    answer = await client.post(f"/api/v1/nodes/{name}/execute", json=body)
    assert answer.status_code == 200, answer.text
    return (time.perf_counter() - began) * 1_000


async def timed_fan_out(client: httpx2.AsyncClient, count: int) -> float:
    """Return how long one command on all machines takes, the best of three, in seconds."""
    body = {"selector": "all", "tool_name": "run_command", "arguments": {"command": "uptime"}}
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        answer = await client.post("/api/v1/nodes/execute", json=body)
        taken.append(time.perf_counter() - began)
        outcomes = answer.json()["outcomes"]
        done = sum(each["command"] is not None and each["command"]["status"] == "success" for each in outcomes)
        assert done == count, outcomes[:3]
    return min(taken)


async def measure(options: argparse.Namespace, folder: Path, pid: int, client: httpx2.AsyncClient, url: str) -> None:
    """Print the figures."""
    rows: list[tuple[str, str, str]] = []
    invite = {"uses": options.nodes, "expires_in_s": 3600}
    token = (await client.post("/api/v1/nodes/invites", json=invite)).json()["token"]
    nodes = [LightNode(url, token, f"node-{number:04}") for number in range(options.nodes)]
    await everybody([node.join(client) for node in nodes])
    before = memory_kb(pid)
    await everybody([node.connect() for node in nodes])
    await asyncio.sleep(2.0)
    each = (memory_kb(pid) - before) / options.nodes
    rows.append(("memory per idle node, KB", f"{each:.1f}", "40"))
    rows.append(("  plain websockets, KB", f"{await plain_sockets(min(options.nodes, 1_000)):.1f}", ""))

    taken = sorted([await timed_command(client, nodes[n % options.nodes].name) for n in range(options.commands)])
    disk = fsync_ms(folder)
    p99 = taken[int(len(taken) * 0.99) - 1]
    rows.append(("command p50, ms", f"{statistics.median(taken):.1f}", ""))
    rows.append(("command p99, ms", f"{p99:.1f}", f"10 + fsyncs of {disk:.1f}"))

    rows.append((f"fan-out to {options.nodes}, s", f"{await timed_fan_out(client, options.nodes):.2f}", "1"))
    began = time.perf_counter()
    await everybody([timed_command(client, node.name) for node in nodes])
    rows.append(("  the same as a request for each, s", f"{time.perf_counter() - began:.2f}", ""))

    grown, longest = memory_kb(pid), 0.0
    for _ in range(options.drops):
        await asyncio.gather(*(node.drop() for node in nodes))
        began = time.perf_counter()
        await everybody([node.connect() for node in nodes])
        async with asyncio.timeout(BACK_TIMEOUT_S):
            while await online(client) < options.nodes:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.1)
        longest = max(longest, time.perf_counter() - began)
    rows.append((f"all dropped and back, {options.drops} times: the longest, s", f"{longest:.1f}", "30"))
    rows.append(("  growth, MB", f"{(memory_kb(pid) - grown) / 1024:.1f}", "20"))
    if options.processes:
        rows.append(("stopped processes noticed, s", f"{await noticed(client, folder, options.processes):.1f}", "50"))
    print("| | measured | at most |\n|---|--:|--:|")
    for name, value, goal in rows:
        print(f"| {name} | {value} | {goal} |")


async def noticed(client: httpx2.AsyncClient, folder: Path, count: int) -> float:
    """Return how long it takes until the hub says of all stopped nodes that they are offline."""
    machines = [await enrol(client, folder / f"m{number}", f"true-{number}", OPEN) for number in range(count)]
    try:
        for machine in machines:
            machine.start()
        for machine in machines:
            await until_status(client, machine.name, "online")
        for machine in machines:
            assert machine.process is not None
            machine.process.send_signal(signal.SIGSTOP)
        began = time.perf_counter()
        async with asyncio.timeout(120.0):
            for machine in machines:
                while await is_online(client, machine.name):  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.2)
        return time.perf_counter() - began
    finally:
        for machine in machines:
            machine.kill()


async def talk(options: argparse.Namespace, folder: Path, pid: int, url: str) -> None:
    """Measure once the hub is there."""
    async with httpx2.AsyncClient(base_url=url, timeout=120.0) as client:
        await started(client)
        client.headers["authorization"] = f"Bearer {local_token(folder / '.fabric')}"
        await measure(options, folder, pid, client, url)


def main(options: argparse.Namespace) -> None:
    """Start a hub, measure, and stop it."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        fabric = shutil.which("fabric", path=str(Path(sys.executable).parent)) or "fabric"
        environment = {**os.environ, "HOME": name, "XDG_DATA_HOME": f"{name}/data", "XDG_CONFIG_HOME": f"{name}/config"}
        words = [fabric, "serve", "--port", str(port), "--workspace", f"{name}/.fabric"]
        hub = subprocess.Popen(words, cwd=name, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}"
        try:
            asyncio.run(talk(options, folder, hub.pid, url))
        finally:
            hub.terminate()
            hub.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option, default in (("--nodes", 1_000), ("--commands", 500), ("--drops", 10), ("--processes", 0)):
        parser.add_argument(option, type=int, default=default)
    main(parser.parse_args())
