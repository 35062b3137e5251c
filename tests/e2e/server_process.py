"""`fabric serve` as a process, and a client that talks to it."""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

from e2e.fabric_process import Ended, Fabric, Started
from free_ports import free_port
from integration.http.served import TLS, Stream, bearer

PATIENCE_S = 120.0


@dataclass
class Serving:
    """A `fabric serve` process, and a client that talks to it."""

    started: Started
    url: str
    token: str
    client: httpx2.AsyncClient

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    async def runs(self) -> list[dict[str, Any]]:
        """Return all runs, newest first."""
        found: list[dict[str, Any]] = (await self.client.get("/runs?limit=200")).json()["runs"]
        return found

    async def until_settled(self) -> list[dict[str, Any]]:
        """Wait until no run is under way any more."""
        async with asyncio.timeout(PATIENCE_S):
            while "running" in {run["status"] for run in await self.runs()}:
                await asyncio.sleep(0.05)
        return await self.runs()

    async def kill(self) -> None:
        """End it without a warning."""
        self.started.process.kill()
        await self.started.ended()

    async def stop(self, number: int = signal.SIGTERM) -> Ended:
        """Tell it to stop, and wait until it has."""
        self.started.process.send_signal(number)
        return await self.started.ended(timeout_s=PATIENCE_S)


@contextlib.asynccontextmanager
async def serving(fabric: Fabric, *options: str) -> AsyncIterator[Serving]:
    """Start a server on a free port; it is killed at the end if it still runs."""
    started = await fabric.start("serve", "--port", str(free_port()), "--json", *options)
    assert started.process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = await started.process.stdout.readline()
        told = json.loads(line or b"{}")
        assert told.get("pid") == started.process.pid, await started.ended()
        token = (fabric.root / "token").read_text().strip()
        async with httpx2.AsyncClient(
            base_url=told["url"], timeout=PATIENCE_S, headers=bearer(token), verify=TLS
        ) as client:
            yield Serving(started, told["url"], token, client)
    finally:
        if started.process.returncode is None:
            started.process.kill()
            await started.process.communicate()


async def in_background(serving: Serving, **body: Any) -> None:
    """Start a run and leave."""
    stream = await Stream.send(serving.port, "POST", "/run/stream", body=body, headers=bearer(serving.token))
    await stream.reader.readuntil(b"\r\n\r\n")
    stream.close()


def require_log(ended: Ended) -> None:
    """Check that standard error holds lines of the operations log, and nothing that went wrong unseen."""
    lines = [json.loads(line) for line in ended.err.splitlines()]
    assert [line for line in lines if line["level"] in {"error", "critical"} or "exception" in line] == []
