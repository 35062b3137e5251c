"""`fabric undo`: take back what a run changed."""

import sys
from typing import Annotated

import typer

from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.domain.runs.undo import UndoStep
from agent_fabric.domain.runs.unified_diff import quote_path
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED, FAILED
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import colour, plain
from agent_fabric.interfaces.cli.place import Place, choose_run_and, with_run
from agent_fabric.wire.changes import undo_object

app = new_app("Revert what a run changed.")


@app.command()
def undo(
    run_id: RunIdArgument = None,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATHS]...", help="Only these files and folders of the project.")
    ] = None,
    last: Last = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what was changed since; it is kept.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Put back what the last undo of the run took away.")] = False,
    *,
    at: Place,
) -> int:
    """Revert what a run changed, by tools and by commands. Files that were edited since are left alone.

    Exit codes: 0 done, 1 refused or only in part, 2 wrong usage or no such run.
    """
    chosen, names = choose_run_and(run_id, *(paths or ()), last=last)
    wanted = [path.rstrip("/").removeprefix("./") for path in names]
    how = {"redo": redo, "dry": dry_run, "force": force}
    undone = with_run(at, chosen, lambda runs, found: runs.undo(found, paths=wanted, **how))
    at.print(undo_object(undone), _report(undone, redo=redo))
    return FAILED if undone.refused else COMPLETED


def _report(undone: Undone, *, redo: bool) -> str:
    lines = [_line(step, dry=undone.dry) for step in undone.done]
    for one in undone.refused:
        what = colour("not restored" if one.final else "left alone", "yellow", sys.stdout)
        lines.append(f"{what} {quote_path(one.path)}: {plain(one.reason)}")
    if not undone.done and not undone.refused:
        lines.append("Nothing to do: everything is already back.")
    elif not undone.done and all(one.final for one in undone.refused):
        lines.append("Nothing was touched: what is listed cannot be restored, everything else is as before the run.")
    elif not undone.done:
        lines.append("Nothing was touched. Name the paths that you want back, or overwrite with --force: it is kept.")
    elif undone.dry:
        lines.append("Nothing was touched.")
    elif not redo:
        lines.append(f"To restore the changes: fabric undo {undone.run_id} --redo")
    return "\n".join(lines) + "\n"


def _line(step: UndoStep, *, dry: bool) -> str:
    what = "remove" if step.target is None else "restore"
    return f"{f'would {what}' if dry else f'{what}d'} {quote_path(step.path)}"
