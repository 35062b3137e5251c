"""`fabric cancel`: end a run."""

import sys
from typing import Annotated

import typer

from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import print_json
from agent_fabric.interfaces.cli.place import Place, RunAccess, at_place, choose_run
from agent_fabric.wire.results import result_object

app = new_app("Cancel a run.")


@app.command()
def cancel(
    run_id: RunIdArgument = None,
    last: Last = False,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    *,
    at: Place,
) -> int:
    """End a run from anywhere, even while its model or a tool hangs. What it has done stays."""
    chosen = choose_run(run_id, last=last)

    async def go(place: RunAccess) -> tuple[RunResult, str]:
        result = await place.cancel(await chosen.find(place), reason=reason)
        return result, await place.run_dir(result.run_id)

    result, run_dir = at_place(at, go)
    if at.as_json:
        print_json(result_object(result, run_dir))
    elif result.status is RunStatus.CANCELLED:
        sys.stdout.write(f"Run {result.run_id} is cancelled.\n")
    else:
        sys.stdout.write(f"Run {result.run_id} had already ended: {result.status}.\n")
    return COMPLETED if result.status is RunStatus.CANCELLED else FAILED
