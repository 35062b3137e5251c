"""`fabric review`: review a change."""

import sys
from typing import Annotated

import typer

from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.options import Verbose
from agent_fabric.interfaces.cli.place import Place
from agent_fabric.interfaces.cli.runs.output_format import Output, print_errors, with_output

app = new_app("Review a change.")


@app.command()
def review(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[DIFF]", help="A file with a diff, `-` for standard input; by default git is asked."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="BRANCH", help="Review all since this branch; by default what is uncommitted."),
    ] = None,
    model_key: Annotated[str | None, typer.Option(metavar="KEY", help="The configured model to use.")] = None,
    verbose: Verbose = False,
    output: Output = None,
    *,
    at: Place,
) -> int:
    """Review a change: findings with file and line, severity and a suggested patch. Nothing is changed.

    Exit codes: 0 nothing serious, 1 failed, 2 wrong usage or configuration, 3 waiting for input, 6 something serious
    was found, 130 interrupted.
    """
    at = with_output(at, output)

    def work() -> int:
        from agent_fabric.interfaces.cli.runs.review_run import read_change, review_change  # noqa: PLC0415 - `--help` needs no engine

        diff = read_change(source, base)
        if not diff.strip():
            sys.stderr.write("Nothing has changed.\n")
            return at.print({"findings": [], "serious": 0}, "")
        return review_change(diff, model_key, at, verbose=verbose)

    return print_errors(at, work)
