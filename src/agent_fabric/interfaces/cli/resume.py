"""`fabric resume`: resume a run."""

from typing import Annotated

import typer

from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.cli.driving import drive_in_foreground
from agent_fabric.interfaces.cli.foreground import Job, OnCreated, local_job
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import AsJson, Verbose, Workspace, configuration, existing_root
from agent_fabric.interfaces.cli.place import Server, server_of

app = new_app("Resume a run.")


@app.command()
def resume(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run, or how its id begins.")] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest run.")] = False,
    verbose: Verbose = False,
    workspace: Workspace = None,
    server: Server = None,
    as_json: AsJson = False,
) -> int:
    """Resume a killed, interrupted or waiting run where it stopped. A settled run shows its result and exit code."""
    if (run_id is None) == (not last):
        raise ConfigError("Say which run: its id, or --last", hint="See all runs with `fabric logs list`.")
    url = server_of(workspace, server)
    job = _here(run_id, workspace) if url is None else _there(run_id, url)
    return drive_in_foreground(job, verbose=verbose, as_json=as_json)


def _here(run_id: str | None, workspace: str | None) -> Job:
    """Resume it in this process."""
    root = existing_root(workspace)

    async def work(fabric: LocalFabric, on_created: OnCreated) -> RunResult:
        catalogue = fabric.records.catalogue
        found = await catalogue.newest() if run_id is None else await catalogue.find(run_id)
        on_created(found)
        return await fabric.resume_run(found)

    return local_job(root, configuration(root), work)


def _there(run_id: str | None, url: str) -> Job:
    """Let a server resume it."""
    from agent_fabric.interfaces.cli.foreground_remote import (  # noqa: PLC0415 - aiohttp takes its time
        RemoteForeground,
        remote_job,
    )

    async def work(there: RemoteForeground, on_created: OnCreated) -> RunResult:
        runs = there.client.runs
        return await there.resume(await runs.newest() if run_id is None else await runs.find(run_id), on_created)

    return remote_job(url, work)
