"""Joins what a drill needs: a worker to kill, a run that only waits, and who watches."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from agent_fabric.application.cluster.drill_takeover import DrillReport, DrillTakeover
from agent_fabric.bootstrap.local import cancel_run
from agent_fabric.bootstrap.records import open_records
from agent_fabric.bootstrap.worker import open_worker
from agent_fabric.bootstrap.workflows import open_workflows, sound
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Priority, RunResult
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.sandbox.drill_worker import start_drill_worker
from agent_fabric.infrastructure.workflows.definition_files import check_definition

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
    """Be the worker of a drill: join the others, begin the run, and drive it until somebody kills us.

    No other run is claimed.
    """
    worker = open_worker(root, loaded)
    fabric = worker.fabric
    try:
        workflow = sound(check_definition(Path("takeover-drill.yaml"), _WORKFLOW))
        task = open_workflows(root, loaded.config).task(workflow, {}, priority=Priority.BATCH)
        task = replace(task, pool=loaded.config.cluster.pools[0])
        drive = await fabric.dispatch(partial(fabric.execute_task.create, task))
        assert not isinstance(drive, RunResult), "a new run has no result yet"
        on_started(worker.cluster.worker_id, drive.run_id)
        await asyncio.shield(drive.outcome)
    finally:
        await fabric.stop()
        await fabric.aclose()
