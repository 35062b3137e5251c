"""What a hub and its nodes cost: start and memory of a node, commands, fan-out, reconnects, silence (FL-28, FL-30).

    python benchmarks/bench_fleet.py [--nodes 1000] [--commands 500] [--drops 10] [--processes 200] [--machines 5]

It takes about three minutes. The hub is a process of its own. First comes one true node, started from its archive as a
machine does it: with nothing but Python, and with what is installed here (`cryptography`). Its second and later starts
count; the first one unpacks the archive. Then come light nodes in this process: they have keys, show who they are, and
keep no spool. Commands are asked for by a third process, one after the other; between two of them it asks the hub for
something that needs neither disk nor machine, takes the time of one fsync, and for a true node that of a plain process:
the floors in the same run. Beside it: as many plain `websockets` connections to a plain server.

In the end, light nodes that are processes of their own (`--processes`) and true ones with their spools (`--machines`)
are stopped (SIGSTOP) at the same moment, and it is measured until the hub shows the last of them as offline.
"""

import argparse
import asyncio
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import httpx2

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from websockets.asyncio.client import connect  # noqa: E402 - the path comes first
from websockets.asyncio.server import serve  # noqa: E402

from agent_fabric.infrastructure.fleet.node_archive import node_archive  # noqa: E402
from agent_fabric.infrastructure.identity.local_token import local_token  # noqa: E402
from integration.fleet.light_nodes import LightNode, light_processes  # noqa: E402
from integration.fleet.machines import OPEN, Machine, enrol, until_status  # noqa: E402

START_TIMEOUT_S = 60.0
BACK_TIMEOUT_S = 60.0
NOTICED_TIMEOUT_S = 120.0
AT_ONCE = 64
WARM_UP = 20
STARTS = 4
IDLE_S = 3.0
TRUE_NODE = "true"
PYTHONS = {"Python alone": ("-I", "-S"), "with what is installed": ("-I",)}
HUB_FSYNCS, NODE_FSYNCS = 2, 2
"""On the path of a command: asked for, ended; received and begun, finished."""
TOKEN = "BENCH_FLEET_TOKEN"


def tell(what: str, value: str, most: str = "") -> None:
    """Print a row at once: a run that is cut off has told what it had."""
    print(f"| {what} | {value} | {most} |", flush=True)


def name_of(number: int) -> str:
    """Return the name of a light node."""
    return f"node-{number:04}"


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def memory_kb(pid: int) -> int:
    """Return what a process has in memory and shares with nobody."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def cpu_ms(pid: int) -> int:
    """Return how much processor time a process has had, to ten milliseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1_000 // os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return what a process has in memory, with what it shares."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def timed_fsync(file: BinaryIO) -> float:
    """Return how long one small write with fsync takes, in milliseconds."""
    file.write(b"x" * 4096)
    file.flush()
    began = time.perf_counter()
    os.fsync(file.fileno())
    return (time.perf_counter() - began) * 1_000


def share_of(taken: list[float], share: float) -> float:
    """Return what a share of the values does not exceed."""
    return sorted(taken)[max(0, math.ceil(len(taken) * share) - 1)]


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


async def plain_sockets(count: int) -> float:
    """Return what a plain server needs for each idle connection, in KB; client and server are one process."""
    port = free_port()
    async with serve(lambda each: each.wait_closed(), "127.0.0.1", port, compression=None):
        before = memory_kb(os.getpid())
        kept = [await connect(f"ws://127.0.0.1:{port}", compression=None) for _ in range(count)]
        used = memory_kb(os.getpid()) - before
        await asyncio.gather(*(each.close() for each in kept))
    return used / count / 2


async def timed_command(client: httpx2.AsyncClient, name: str, command: str = "uptime") -> float:
    """Return how long one command takes, from the question to the answer, in milliseconds."""
    body = {"tool_name": "run_command", "arguments": {"command": command}}
    began = time.perf_counter()
    answer = await client.post(f"/api/v1/nodes/{name}/execute", json=body)
    assert answer.status_code == 200, answer.text
    return (time.perf_counter() - began) * 1_000


async def timed_read(client: httpx2.AsyncClient) -> float:
    """Return how long an answer takes that needs neither disk nor machine, in milliseconds."""
    began = time.perf_counter()
    assert (await client.get("/ready")).status_code == 200
    return (time.perf_counter() - began) * 1_000


async def timed_process() -> float:
    """Return how long the shell takes that a true node starts for a command, in milliseconds."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "true", stdout=subprocess.PIPE)
    await process.communicate()
    return (time.perf_counter() - began) * 1_000


async def ask_alone(options: argparse.Namespace) -> None:
    """Be the process that asks for commands; print what each of them, and of the floors, took."""
    taken: dict[str, list[float]] = {"command": [], "read": [], "fsync": [], "process": []}
    headers = {"authorization": f"Bearer {os.environ[TOKEN]}"}
    async with httpx2.AsyncClient(base_url=options.ask, timeout=120.0, headers=headers) as client:
        with (Path.cwd() / "fsync").open("wb") as file:
            for number in range(-WARM_UP, options.commands):
                name = TRUE_NODE if options.true_node else name_of(number % options.nodes)
                command = await timed_command(client, name, "true" if options.true_node else "uptime")
                read, fsync = await timed_read(client), timed_fsync(file)
                process = await timed_process() if options.true_node else 0.0
                if number >= 0:
                    taken["process"].append(process)
                    taken["command"].append(command)
                    taken["read"].append(read)
                    taken["fsync"].append(fsync)
    print(json.dumps(taken))


async def asked_alone(options: argparse.Namespace, folder: Path, url: str, *more: str) -> dict[str, list[float]]:
    """Return what commands and floors took, as a process of its own has measured it."""
    counts = ("--commands", str(options.commands), "--nodes", str(options.nodes))
    words = (sys.executable, __file__, "--ask", url, *counts, *more)
    environment = {**os.environ, TOKEN: local_token(folder / ".fabric")}
    asking = await asyncio.create_subprocess_exec(*words, cwd=folder, env=environment, stdout=subprocess.PIPE)
    told, _ = await asking.communicate()
    found: dict[str, list[float]] = json.loads(told)
    return found


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


def tell_shares(taken: dict[str, list[float]], fsyncs: int, whose: str) -> None:
    """Print how long commands took, and beside it how long they may."""
    for share in (0.5, 0.9, 0.99):
        of = {name: share_of(values, share) for name, values in taken.items()}
        plain = f" + a process of {of['process']:.1f}" if of["process"] else ""
        most = 10 + fsyncs * of["fsync"] + of["process"]
        goal = f"10 + {fsyncs} fsyncs of {of['fsync']:.1f}{plain} = {most:.1f}"
        tell(f"{whose}: command p{share * 100:.0f}, ms", f"{of['command']:.1f}", goal)
        tell(f"  a read without disk, p{share * 100:.0f}, ms", f"{of['read']:.1f}")


def start_archive(machine: Machine, archive: Path, options: Sequence[str]) -> int:
    """Start a true node from its archive; return the number of its process."""
    words = [sys.executable, *options, str(archive), "run", "--dir", str(machine.folder)]
    with (machine.folder / "log").open("ab") as log:
        machine.process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    return machine.process.pid


async def start_once(
    client: httpx2.AsyncClient, machine: Machine, archive: Path, options: Sequence[str]
) -> tuple[int, int]:
    """Start a true node; return its process, and the processor time until it is online, in milliseconds."""
    before = (await client.get(f"/api/v1/nodes/{machine.name}")).json()["generation"]
    process = start_archive(machine, archive, options)
    await until_status(client, machine.name, "online", after=before)
    return process, cpu_ms(process)


async def true_node(options: argparse.Namespace, folder: Path, pid: int, client: httpx2.AsyncClient, url: str) -> None:
    """Print what one true node costs its machine, and how long its commands take."""
    own, archive = 0, folder / "fabric-node.pyz"
    archive.write_bytes(node_archive().data)
    tell("archive of a node, KB", f"{archive.stat().st_size / 1024:.0f}", "400")
    machine = await enrol(client, folder / TRUE_NODE, TRUE_NODE, OPEN)
    try:
        for what, flags in PYTHONS.items():
            taken = []
            for _ in range(STARTS):
                machine.kill()
                own, needed = await start_once(client, machine, archive, flags)
                taken.append(needed)
            await asyncio.sleep(IDLE_S)
            later = sorted(taken[1:])
            tell(f"{what}: start of a node, CPU ms", f"{later[0]} to {later[-1]}", "400")
            tell("  the first one, which unpacks it where none has", f"{taken[0]}")
            tell(f"{what}: idle node, resident MB", f"{resident_mb(own):.1f}", "35")
            tell("  of that shared with nobody, MB", f"{memory_kb(own) / 1024:.1f}")
        busy, own_busy = cpu_ms(pid), cpu_ms(own)
        asked = await asked_alone(options, folder, url, "--true-node")
        tell_shares(asked, HUB_FSYNCS + NODE_FSYNCS, "a true node")
        count = options.commands + WARM_UP
        told = f"{(cpu_ms(pid) - busy) / count:.1f} and {(cpu_ms(own) - own_busy) / count:.1f}"
        tell("  processor of hub and node for one of each, ms", told)
    finally:
        machine.kill()


async def measure(options: argparse.Namespace, folder: Path, pid: int, client: httpx2.AsyncClient, url: str) -> None:
    """Print the figures."""
    print("| | measured | at most |\n|---|--:|--:|", flush=True)
    tell("load of the machine, at first", f"{os.getloadavg()[0]:.1f}")
    await true_node(options, folder, pid, client, url)
    invite = {"uses": options.nodes, "expires_in_s": 3600}
    token = (await client.post("/api/v1/nodes/invites", json=invite)).json()["token"]
    nodes = [LightNode(url, token, name_of(number)) for number in range(options.nodes)]
    await everybody([node.join(client) for node in nodes])
    before = memory_kb(pid)
    await everybody([node.connect() for node in nodes])
    await asyncio.sleep(2.0)
    each = (memory_kb(pid) - before) / options.nodes
    tell("memory per idle node, KB", f"{each:.1f}", "40")
    tell("  plain websockets, KB", f"{await plain_sockets(min(options.nodes, 1_000)):.1f}")

    busy = cpu_ms(pid)
    taken = await asked_alone(options, folder, url)
    busy = cpu_ms(pid) - busy
    tell_shares(taken, HUB_FSYNCS, f"{options.nodes} light nodes")
    tell("  processor of the hub for one of each, ms", f"{busy / (options.commands + WARM_UP):.1f}")

    tell(f"fan-out to {options.nodes}, s", f"{await timed_fan_out(client, options.nodes):.2f}", "1")
    began = time.perf_counter()
    await everybody([timed_command(client, node.name) for node in nodes])
    tell("  the same as a request for each, s", f"{time.perf_counter() - began:.2f}")

    grown, longest = memory_kb(pid), 0.0
    for _ in range(options.drops):
        await asyncio.gather(*(node.drop() for node in nodes))
        began = time.perf_counter()
        await everybody([node.connect() for node in nodes])
        async with asyncio.timeout(BACK_TIMEOUT_S):
            while await online(client) < options.nodes:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.1)
        longest = max(longest, time.perf_counter() - began)
    tell(f"all dropped and back, {options.drops} times: the longest, s", f"{longest:.1f}", "30")
    tell("  growth, MB", f"{(memory_kb(pid) - grown) / 1024:.1f}", "20")
    if options.processes or options.machines:
        await asyncio.gather(*(node.drop() for node in nodes))
        taken_s = await noticed(client, folder, url, options)
        what = f"{options.processes} light and {options.machines} true nodes, stopped processes: noticed, s"
        tell(what, f"{taken_s[0]:.1f} to {taken_s[-1]:.1f}", "50")
    tell("load of the machine, in the end", f"{os.getloadavg()[0]:.1f}")


async def until_count(client: httpx2.AsyncClient, wanted: int) -> None:
    """Wait until so many nodes are online."""
    async with asyncio.timeout(NOTICED_TIMEOUT_S):
        while await online(client) != wanted:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.2)


async def noticed(
    client: httpx2.AsyncClient, folder: Path, url: str, options: argparse.Namespace
) -> tuple[float, float]:
    """Return how long it takes until the hub says of the first and of all stopped nodes that they are offline."""
    await until_count(client, 0)
    machines = [
        await enrol(client, folder / f"m{number}", f"true-{number}", OPEN) for number in range(options.machines)
    ]
    invite = {"uses": max(1, options.processes), "expires_in_s": 3600}
    token = (await client.post("/api/v1/nodes/invites", json=invite)).json()["token"]
    try:
        async with light_processes(url, options.processes, token, "--prefix", "stopped") as light:
            for machine in machines:
                machine.start()
            await until_count(client, options.processes + options.machines)
            stopped = [*light, *(machine.process.pid for machine in machines if machine.process is not None)]
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            began = time.perf_counter()
            async with asyncio.timeout(NOTICED_TIMEOUT_S):
                while await online(client) == len(stopped):  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.2)
                first = time.perf_counter() - began
            await until_count(client, 0)
            return first, time.perf_counter() - began
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
    counts = {"--nodes": 1_000, "--commands": 500, "--drops": 10, "--processes": 200, "--machines": 5}
    for option, default in counts.items():
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--ask", default="", help=argparse.SUPPRESS)
    parser.add_argument("--true-node", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.ask:
        asyncio.run(ask_alone(told))
    else:
        main(told)
