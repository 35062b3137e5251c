"""`fabric cancel`: end a run."""

from typing import Annotated

import typer

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.place import Place, RunAccess, choose_run, with_run
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

    async def go(runs: RunAccess, found: RunId) -> tuple[RunResult, str]:
        result = await runs.cancel(found, reason=reason)
        return result, await runs.run_dir(found)

    result, run_dir = with_run(at, choose_run(run_id, last=last), go)
    cancelled = result.status is RunStatus.CANCELLED
    how = "is cancelled" if cancelled else f"had already ended: {result.status}"
    at.print(result_object(result, run_dir), f"Run {result.run_id} {how}.\n")
    return COMPLETED if cancelled else FAILED
