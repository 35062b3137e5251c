"""A worker: what a server does, without its doors."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from agent_fabric.application.cluster.drill_takeover import DrillReport, DrillTakeover
from agent_fabric.application.ports.cluster import Cluster
from agent_fabric.application.runs.claim_runs import ClaimRuns
from agent_fabric.bootstrap.records import open_records
from agent_fabric.bootstrap.runs import cancel_run
from agent_fabric.bootstrap.server import ServerFabric, build_server
from agent_fabric.bootstrap.workflows import open_workflows, sound
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Priority, RunResult
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.sandbox.drill_worker import start_drill_worker
from agent_fabric.infrastructure.workflows.definition_files import check_definition

LOOK_S = 0.1
"""How often a worker looks whether it is to end."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Drives the runs of a store that processes share."""

    fabric: ServerFabric
    cluster: Cluster
    claim_runs: ClaimRuns

    async def __call__(self, stop: asyncio.Event, *, on_joined: Callable[[str], None], once: bool = False) -> None:
        """Work until `stop` is set, or this worker is drained; then hand over what is under way.

        With `once`, also stop when there is nothing to drive.
        """
        tasks: list[asyncio.Task[object]] = []
        try:
            on_joined(self.cluster.worker_id)
            if once:
                while await self.claim_runs.look() or self.fabric.runs.dispatch.running:
                    if stop.is_set():
                        break
                    await asyncio.sleep(LOOK_S)
                return
            tasks += [asyncio.create_task(duty) for duty in self.fabric.drive()]
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


SLOTS: Final[dict[str, object]] = {"server": {"max_running": 1}}
"""Settings of a worker that has room for the drill's run alone: no other run dies with it."""
_WORKFLOW: Final = """\
name: takeover-drill
version: 1.0.0
description: Waits three times. A worker is killed during the second wait, and another one must go on.
steps:
  - {id: before, action: wait, inputs: {seconds: 0.2}}
  - {id: killed, action: wait, depends_on: [before], inputs: {seconds: 4}}
  - {id: after, action: wait, depends_on: [killed], inputs: {seconds: 0.2}}
"""
"""It needs no model and no tool, and waits for less than the time after which a run leaves its driver."""


async def drill(root: Path, loaded: Loaded, tell: Callable[[str], None]) -> DrillReport:
    """Kill a worker of our own and watch who goes on with its run.

    Raises:
        ConfigError: the store is a file, which other machines do not share.
        WorkerNotFound: no other process could take over.
        StoreUnavailable: the store cannot be read.
    """
    with open_records(root) as records:
        storage = records.storage
        if storage.cluster is None:
            raise ConfigError(
                "The store is a file of this machine, which other machines do not share",
                hint="`store.url` names a PostgreSQL database that several machines share.",
            )
        cluster = loaded.config.cluster
        run = DrillTakeover(
            cluster=storage.cluster,
            reader=storage.reader,
            cancel_run=cancel_run(records),
            clock=SystemClock(),
            start_worker=partial(start_drill_worker, root),
            lease_ttl_s=cluster.lease_ttl_s,
            sweep_s=cluster.sweep_s,
            pool=cluster.pools[0],
            tell=tell,
        )
        return await run()


async def serve_drill(root: Path, loaded: Loaded, on_started: Callable[[str, RunId], None]) -> None:
    """Be the worker of a drill: join the others, begin the run, and drive it until this process is killed.

    No other run is claimed.
    """
    worker = open_worker(root, loaded)
    fabric = worker.fabric
    try:
        workflow = sound(check_definition(Path("takeover-drill.yaml"), _WORKFLOW))
        task = open_workflows(root, loaded.config).task(workflow, {}, priority=Priority.BATCH)
        task = replace(task, pool=loaded.config.cluster.pools[0])
        drive = await fabric.runs.dispatch(partial(fabric.local.execute_task.create, task))
        assert not isinstance(drive, RunResult), "a new run has no result yet"
        on_started(worker.cluster.worker_id, drive.run_id)
        await asyncio.shield(drive.outcome)
    finally:
        await fabric.stop()
        await fabric.aclose()
