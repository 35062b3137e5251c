"""`fabric cancel`: end a run."""

import asyncio
import sys
from typing import Annotated

import typer

from agent_fabric.bootstrap.local import cancel_run, open_records, this_person
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import AsJson, RunIdArgument, Workspace, existing_root
from agent_fabric.interfaces.cli.output import print_json
from agent_fabric.interfaces.result import result_object

app = new_app("End a run.")


@app.command()
def cancel(
    run_id: RunIdArgument,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> int:
    """End a run from anywhere, also while its model or a tool hangs. What it has done stays."""
    records = open_records(existing_root(workspace))

    async def go() -> RunResult:
        found = await records.catalogue.find(run_id)
        return await cancel_run(records)(found, by=this_person(), reason=reason)

    try:
        result = asyncio.run(go())
    finally:
        records.close()
    if as_json:
        print_json(result_object(result, records.layout.run_dir(result.run_id)))
    elif result.status is RunStatus.CANCELLED:
        sys.stdout.write(f"Run {result.run_id} is cancelled.\n")
    else:
        sys.stdout.write(f"Run {result.run_id} had already ended: {result.status}.\n")
    return COMPLETED if result.status is RunStatus.CANCELLED else FAILED
