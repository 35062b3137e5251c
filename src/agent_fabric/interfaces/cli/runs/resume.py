"""`fabric resume`: resume a run."""

from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import Last, RunIdArgument, Verbose
from agent_fabric.interfaces.cli.place import Place, choose_run
from agent_fabric.interfaces.cli.runs.driving import drive_in_foreground
from agent_fabric.interfaces.cli.runs.foreground import Foreground, foreground_at
from agent_fabric.interfaces.cli.runs.output_format import Output, print_errors, with_output

app = new_app("Resume a run.")


@app.command()
def resume(
    run_id: RunIdArgument = None, last: Last = False, verbose: Verbose = False, output: Output = None, *, at: Place
) -> int:
    """Resume a killed, interrupted or waiting run where it stopped. A settled run shows its result and exit code."""
    chosen = choose_run(run_id, last=last)

    async def go_on(foreground: Foreground) -> RunResult:
        return await foreground.resume(await chosen.find(foreground.runs))

    at = with_output(at, output)
    return print_errors(at, lambda: drive_in_foreground(foreground_at(at), go_on, at, verbose=verbose))
