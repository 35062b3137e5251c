"""`fabric resume`: resume a run."""

from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import (
    Last,
    RunIdArgument,
    Verbose,
    configuration,
    existing_root,
)
from agent_fabric.interfaces.cli.place import Place, RunChoice, choose_run
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import Job, OnCreated, local_job

app = new_app("Resume a run.")


@app.command()
def resume(run_id: RunIdArgument = None, last: Last = False, verbose: Verbose = False, *, at: Place) -> int:
    """Resume a killed, interrupted or waiting run where it stopped. A settled run shows its result and exit code."""
    chosen = choose_run(run_id, last=last)
    url = at.url()
    job = _here(chosen, at.workspace) if url is None else _there(chosen, url)
    return drive_in_foreground(job, verbose=verbose, as_json=at.as_json)


def _here(chosen: RunChoice, workspace: str | None) -> Job:
    """Resume it in this process."""
    root = existing_root(workspace)

    async def work(fabric: LocalFabric, on_created: OnCreated) -> RunResult:
        found = await chosen.find(LocalRuns(fabric.records))
        on_created(found)
        return await fabric.resume_run(found)

    return local_job(root, configuration(root), work)


def _there(chosen: RunChoice, url: str) -> Job:
    """Let a server resume it."""
    from agent_fabric.interfaces.cli.runs.foreground_remote import (  # noqa: PLC0415 - aiohttp takes its time
        RemoteForeground,
        remote_job,
    )

    async def work(there: RemoteForeground, on_created: OnCreated) -> RunResult:
        return await there.resume(await chosen.find(there.place), on_created)

    return remote_job(url, work)
