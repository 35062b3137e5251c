"""Servers and workers as processes that come back after they were killed, each with its own way to the database."""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_fabric.config.store_address import URL_VARIABLE
from agent_fabric.testing.scripted_model import Script, ScriptedModel
from cutting_proxy import CuttingProxy, run_proxy
from e2e.fabric_process import PATIENCE_S, Fabric, Started, settings
from own_services import OwnService, run_nats, run_redis
from postgres_cluster import Cluster, run_cluster

START_TIMEOUT_S = 120.0
"""A busy machine, and a database that is gone when a process starts, are no failure."""


@dataclass
class Member:
    """A `fabric worker` or `fabric serve`, which can be started again and again."""

    name: str
    fabric: Fabric
    command: tuple[str, ...]
    proxy: CuttingProxy | None = None
    """Its way to the database, if that can be cut."""
    started: Started | None = None
    told: dict[str, Any] = field(default_factory=dict)
    """What it printed at its start."""
    lines: list[str] = field(default_factory=list)
    """What it has logged, over all its lives."""
    failed_starts: list[str] = field(default_factory=list)
    _reading: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self) -> None:
        """Start it, and wait until it has said that it is there; one that ends at once is started again."""
        async with asyncio.timeout(START_TIMEOUT_S):
            while True:
                self.started = await self.fabric.start(*self.command)  # at once: it is killed if this takes too long
                process = self.started.process
                assert process.stdout is not None
                assert process.stderr is not None
                self._reading.append(asyncio.create_task(self._read(process.stderr)))
                line = await process.stdout.readline()
                if b'"pid"' in line:
                    break
                self.failed_starts.append((line + await process.stdout.read()).decode())  # such as: no database
                await process.wait()
                await asyncio.sleep(0.2)
        self.told = json.loads(line)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        """Read what it logs: who writes to a pipe that nobody reads waits for ever."""
        while line := await stream.readline():
            self.lines.append(line.decode(errors="replace").rstrip())

    def send(self, number: int) -> None:
        assert self.started is not None
        with contextlib.suppress(ProcessLookupError):
            self.started.process.send_signal(number)

    async def end(self, number: int = signal.SIGKILL) -> int:
        """End it with a signal, and return its exit code."""
        assert self.started is not None
        self.send(number)
        self.send(signal.SIGCONT)
        return await asyncio.wait_for(self.started.process.wait(), PATIENCE_S)

    async def aclose(self) -> None:
        if self.started is not None and self.started.process.returncode is None:
            await self.end()
        await asyncio.gather(*self._reading)

    @property
    def way(self) -> CuttingProxy:
        """Its way to the database, which can be cut."""
        assert self.proxy is not None
        return self.proxy

    @property
    def url(self) -> str:
        """Where a server listens."""
        return str(self.told["url"])

    @property
    def accidents(self) -> list[str]:
        """What it logged that must not happen whatever the weather is."""
        return [
            line for line in self.lines if ('"level":"error"' in line and '"alert"' not in line) or "Traceback" in line
        ]


@dataclass
class World:
    """One database, NATS, Redis, and everybody who shares them."""

    fabric: Fabric
    """Commands with an undisturbed way to the database."""
    database_url: str
    postgres: Cluster
    nats: OwnService
    redis: OwnService
    model: ScriptedModel
    servers: list[Member]
    workers: list[Member]

    @property
    def members(self) -> list[Member]:
        return [*self.servers, *self.workers]

    @property
    def token(self) -> str:
        return (self.fabric.root / "token").read_text().strip()


@asynccontextmanager
async def world(
    folder: Path,
    script: Script,
    *,
    servers: int,
    workers: int,
    ttl_s: float,
    slots: int = 4,
    doors: int = 1,
    hosts: Sequence[str] = (),
    **more: Any,
) -> AsyncIterator[World]:
    """Start everything; the first `doors` servers only take runs on, the others drive them, too.

    `hosts` are further names of the servers.
    """
    async with AsyncExitStack() as stack:
        services = stack.enter_context(ExitStack())
        postgres = services.enter_context(run_cluster())
        nats, redis = services.enter_context(run_nats()), services.enter_context(run_redis())
        model = await stack.enter_async_context(ScriptedModel(script))
        url = postgres.create_database()
        config = settings(
            model.base_url,
            store={"url": url, "pool": 4},
            cluster={"lease_ttl_s": ttl_s, "sweep_s": 0.2},
            nats={"url": nats.url},
            redis={"url": redis.url},
            server={"max_running": slots, "hosts": list(hosts)},
            **{"limits": {"storage": "redis"}, **more},
        )
        fabric = Fabric(folder, config)
        migrated = await fabric("db", "migrate")
        assert migrated.code == 0, migrated.err

        def member(name: str, *command: str) -> Member:
            proxy = services.enter_context(run_proxy(postgres.port))
            environment = {URL_VARIABLE: url.replace(f":{postgres.port}/", f":{proxy.port}/")}
            return Member(name, Fabric(folder, config, environment=environment), (*command, "--json"), proxy)

        serving = [
            member(f"server {n}", "serve", "--port", "0", *(("--no-drive",) if n < doors else ()))
            for n in range(servers)
        ]
        drivers = [member(f"worker {n}", "worker", "--slots", str(slots)) for n in range(workers)]
        for each in (*serving, *drivers):
            stack.push_async_callback(each.aclose)
            await each.start()
        yield World(fabric, url, postgres, nats, redis, model, serving, drivers)


def counted(found: Mapping[str, int]) -> str:
    """Return numbers for people."""
    return ", ".join(f"{count} {what}" for what, count in sorted(found.items())) or "none"
