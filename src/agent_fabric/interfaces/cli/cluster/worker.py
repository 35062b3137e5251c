"""`fabric worker`: drives runs of a database that several processes share."""

import asyncio
import json
import os
import signal
import sys
from typing import Annotated

import typer

from agent_fabric.domain.plural import count_of
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import Workspace, configuration, fabric_root

app = new_app("Drive runs that servers have taken on.")


@app.command()
def worker(
    slots: Annotated[int | None, typer.Option(min=1, max=10_000, help="Runs driven at the same time.")] = None,
    pool: Annotated[
        list[str] | None, typer.Option(metavar="POOL", help="Take up runs of this pool; several are possible.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing left to drive.")] = False,
    workspace: Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the id of the worker as one JSON object.")] = False,
) -> int:
    """Drive runs that servers have taken on, and those that others have left, until Ctrl-C or SIGTERM.

    Any number of workers share one PostgreSQL database (`store.url`). A worker that is told to stop hands over what it
    drives. The runs of one that dies are taken over by others after `cluster.lease_ttl_s`. With --pool, only runs of
    these pools are driven; runs that name none are of the pool `default`.
    """
    root = fabric_root(workspace)
    overrides: dict[str, object] = {} if slots is None else {"server": {"max_running": slots}}
    if pool:
        overrides["cluster"] = {"pools": list(dict.fromkeys(pool))}
    loaded = configuration(root, overrides)

    from agent_fabric.bootstrap.worker import open_worker  # noqa: PLC0415 - `--help` needs none of it

    def tell(worker_id: str) -> None:
        slots = loaded.config.server.max_running
        text = f"fabric worker: {worker_id} drives up to {count_of(slots, 'run')} ({root})"
        line = json.dumps({"worker_id": worker_id, "pid": os.getpid(), "slots": slots})
        sys.stdout.write(f"{line if as_json else text}\n")
        sys.stdout.flush()

    async def work() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await open_worker(root, loaded)(stop, on_joined=tell, once=once)

    asyncio.run(work())
    return COMPLETED
