"""`fabric resume`: go on with a run."""

from collections.abc import Callable
from typing import Annotated

import typer

from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.cli.driving import drive_in_foreground
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import AsJson, Verbose, Workspace, configuration, existing_root

app = new_app("Go on with a run that stopped.")


@app.command()
def resume(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run, or how its id begins.")] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest run.")] = False,
    verbose: Verbose = False,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """Go on where a run stands: killed, interrupted or waiting. A settled run shows its result and exit code."""
    if (run_id is None) == (not last):
        raise ConfigError("Say which run: its id, or --last", hint="See all runs with `fabric logs list`.")
    root = existing_root(workspace)
    loaded = configuration(root)

    async def work(fabric: LocalFabric, on_created: Callable[[RunId], None]) -> RunResult:
        catalogue = fabric.records.catalogue
        found = await catalogue.newest() if run_id is None else await catalogue.find(run_id)
        on_created(found)
        return await fabric.resume_run(found)

    return drive_in_foreground(root, loaded, work, verbose=verbose, as_json=as_json)
