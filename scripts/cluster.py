"""Starts a whole cluster on this machine, to look at: PostgreSQL, NATS, Redis, two servers, two workers and a proxy.

    python scripts/cluster.py [--seconds N] [--json]

All of it lives in a temporary folder and on free ports of the loopback address, with keys of its own and a model that
says what a script tells it. Nothing is left behind when it ends: by Ctrl-C, by SIGTERM, or after `--seconds`.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # which start the same services

import pytest  # noqa: E402 - see above

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel, Slow  # noqa: E402 - see above
from free_ports import free_port  # noqa: E402 - see above
from own_services import run_nats, run_redis  # noqa: E402 - see above
from postgres_cluster import run_cluster  # noqa: E402 - see above

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LEASE_TTL_S = 5.0
"""Half of the default: whoever tries it should not wait."""
CHUNK = 65_536
SERVERS, WORKERS = 2, 2
PROMPT = "write a greeting"
SCRIPT = Script(
    turns=(
        Slow(Call("write_file", {"path": "greeting.txt", "content": "Hello from a worker.\n"}), 0.5),
        Finish(summary="Wrote greeting.txt."),
        Finish(summary="Wrote greeting.txt."),
    )
)


class Running(NamedTuple):
    """A `fabric` process, and what it said when it was ready."""

    process: asyncio.subprocess.Process
    told: Mapping[str, Any]


class Proxy:
    """Forwards connections to servers in turn; one that does not accept is passed over."""

    def __init__(self, backends: Sequence[int]) -> None:
        self._count = len(backends)
        self._backends = itertools.cycle(backends)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a client and a server until both have said all."""
        for _ in range(self._count):
            try:
                there = await asyncio.open_connection("127.0.0.1", next(self._backends))
            except OSError:
                continue
            await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
            return
        writer.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(CHUNK):
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.close()


@contextlib.asynccontextmanager
async def fabric(environment: Mapping[str, str], folder: Path, *arguments: str) -> AsyncIterator[Running]:
    """Run `fabric` until the end, where it is told to stop; gives what it said first."""
    command = (sys.executable, "-m", "agent_fabric", *arguments, "--workspace", str(folder / ".fabric"), "--json")
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**os.environ, **environment},
            cwd=folder,
            start_new_session=True,  # Ctrl-C is for us, and we tell it
        )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_TIMEOUT_S):
            line = await process.stdout.readline()
        try:
            told = json.loads(line)
            if "pid" not in told:
                raise ValueError(told)
        except ValueError:  # it ends, and says why in several lines, or in its log
            said = line + (await process.communicate())[0]
            problem = said.decode(errors="replace") or (folder / f"{arguments[0]}.log").read_text(errors="replace")
            raise SystemExit(f"fabric {' '.join(arguments)} did not start:\n{problem}") from None
        yield Running(process, told)
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def topology() -> AsyncIterator[dict[str, Any]]:
    """Start everything; gives where it is."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-cluster-", dir="/tmp")))
        postgres = stack.enter_context(run_cluster())
        nats = stack.enter_context(run_nats())
        redis = stack.enter_context(run_redis()) if shutil.which("redis-server") else None
        model = await stack.enter_async_context(ScriptedModel(SCRIPT))
        proxy = free_port()
        environment = _environment(folder, postgres.create_database(), nats.url, redis.url if redis else "", proxy)
        _configure(folder, model.base_url, redis=redis is not None)
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
        (folder / "env").write_text(f"{exports}cd {shlex.quote(str(folder))}\n")
        await _migrate(environment, folder)
        servers = [
            await stack.enter_async_context(fabric(environment, folder, "serve", "--no-drive", "--port", "0"))
            for _ in range(SERVERS)
        ]
        workers = [
            await stack.enter_async_context(fabric(environment, folder, "worker", "--slots", "4"))
            for _ in range(WORKERS)
        ]
        urls = [str(each.told["url"]) for each in servers]
        front = Proxy([int(url.rpartition(":")[2]) for url in urls])
        await stack.enter_async_context(await asyncio.start_server(front.serve, "127.0.0.1", proxy))
        yield {
            "proxy": f"http://127.0.0.1:{proxy}",
            "servers": urls,
            "workers": [each.told["worker_id"] for each in workers],
            "pids": [each.process.pid for each in (*servers, *workers)],
            "postgres": environment["FABRIC_STORE__URL"],
            "nats": nats.url,
            "redis": None if redis is None else redis.url,
            "folder": str(folder),
            "env": str(folder / "env"),
        }


def _environment(folder: Path, store: str, nats: str, redis: str, proxy: int) -> dict[str, str]:
    """Return what every process of the cluster is given; the keys are of its own, and not the user's."""
    return {
        "FABRIC_CONFIG_PATH": str(folder / "config.json"),
        "XDG_DATA_HOME": str(folder / "keys"),
        "FABRIC_STORE__URL": store,
        "FABRIC_NATS__URL": nats,
        **({"FABRIC_REDIS__URL": redis} if redis else {}),
        "FABRIC_CLUSTER__LEASE_TTL_S": str(LEASE_TTL_S),
        "FABRIC_SERVER__HOSTS": json.dumps([f"127.0.0.1:{proxy}", f"localhost:{proxy}"]),
    }


def _configure(folder: Path, model: str, *, redis: bool) -> None:
    scripted = {"base_url": model, "model": "scripted", "backend": "generic"}
    limits = {"limits": {"storage": "redis"}} if redis else {}
    (folder / "config.json").write_text(json.dumps({"models": {"quality": scripted}, **limits}))


async def _migrate(environment: Mapping[str, str], folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent_fabric", "db", "migrate", "--workspace", str(folder / ".fabric")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment},
        cwd=folder,
    )
    async with asyncio.timeout(START_TIMEOUT_S):
        said, _ = await process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"The tables could not be made: {said.decode(errors='replace')}")


def _described(where: Mapping[str, Any]) -> str:
    lines = {
        "proxy": where["proxy"],
        "servers": ", ".join(where["servers"]),
        "workers": ", ".join(each[:8] for each in where["workers"]),
        "PostgreSQL": where["postgres"],
        "NATS": where["nats"],
        "Redis": where["redis"] or "none; apt install redis-server",
        "folder": where["folder"],
    }
    shown = "".join(f"  {name:<12}{value}\n" for name, value in lines.items())
    return (
        f"A cluster runs on this machine.\n\n{shown}\n"
        "Try it in another terminal:\n\n"
        f"  . {where['env']}\n"
        f"  alias fabric={Path(sys.executable).with_name('fabric')}\n"
        "  fabric cluster status\n"
        "  fabric cluster drill\n"
        f'  fabric --server {where["proxy"]} run "{PROMPT}"\n'
        f"  kill -9 {where['pids'][-1]}                  # a worker; the other one goes on\n\n"
        "Ctrl-C ends all of it.\n"
    )


async def run(seconds: float | None, *, as_json: bool) -> None:
    """Keep a cluster until it is to end."""
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    async with topology() as where:
        sys.stdout.write(f"{json.dumps(where)}\n" if as_json else _described(where))
        sys.stdout.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await end.wait()
        sys.stderr.write("Ending…\n")


def main() -> None:
    """Read the options, and start."""
    parser = argparse.ArgumentParser(description="Start a cluster on this machine, to look at.")
    parser.add_argument("--seconds", type=float, default=None, help="end by itself after so long")
    parser.add_argument("--json", action="store_true", help="print where everything is as one JSON object")
    options = parser.parse_args()
    try:
        asyncio.run(run(options.seconds, as_json=options.json))
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:
        raise SystemExit(f"This machine cannot show a cluster: {missing}") from None


if __name__ == "__main__":
    main()
