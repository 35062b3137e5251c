"""A worker: what a server does, without its doors."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent_fabric.application.ports.cluster import Cluster
from agent_fabric.application.runs.claim_runs import ClaimRuns
from agent_fabric.bootstrap.server import ServerFabric, build_server
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.errors import ConfigError

LOOK_S = 0.1
"""How often a worker looks whether it is to end."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Drives the runs of a store that processes share."""

    fabric: ServerFabric
    cluster: Cluster
    claim_runs: ClaimRuns

    async def __call__(self, stop: asyncio.Event, *, on_joined: Callable[[str], None], once: bool = False) -> None:
        """Work until `stop` is set, or somebody drains this worker; then hand over what is under way.

        With `once`, also stop when there is nothing to drive.
        """
        tasks: list[asyncio.Task[None]] = []
        try:
            on_joined(self.cluster.worker_id)
            if once:
                while await self.claim_runs.look() or self.fabric.dispatch.running:
                    if stop.is_set():
                        break
                    await asyncio.sleep(LOOK_S)
                return
            self.fabric.listen_to_hints()
            tasks += [asyncio.create_task(duty) for duty in self.fabric.driving()]
            tasks.append(asyncio.create_task(self.fabric.outgoing.relay()))
            tasks.append(asyncio.create_task(self.fabric.recover_runs(())))
            while not stop.is_set() and not self.cluster.drains:  # noqa: ASYNC110 - a thread learns of the second
                await asyncio.sleep(LOOK_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.fabric.stop()
            await self.fabric.aclose()


def open_worker(root: Path, loaded: Loaded) -> Worker:
    """Join the parts.

    Raises:
        ConfigError: the store is a file, which `fabric serve` alone drives.
        StoreUnavailable: the store cannot be opened.
    """
    if not loaded.config.store.url:
        raise ConfigError(
            "Workers share a PostgreSQL database, and `store.url` is not set",
            hint="On one machine `fabric serve` drives its runs itself. For several, set `store.url`.",
        )
    fabric = build_server(root, loaded, log_to_stderr=True, role=Role.WORKER)
    cluster = fabric.records.storage.cluster
    assert cluster is not None
    assert fabric.claim_runs is not None
    return Worker(fabric, cluster, fabric.claim_runs)
