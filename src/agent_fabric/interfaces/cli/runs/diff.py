"""`fabric diff`: show what a run changed."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer

from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.changes import REBUILDABLE, FileChange
from agent_fabric.domain.runs.unified_diff import FileDiff, quote_path
from agent_fabric.interfaces.cli.invocation import new_app
from agent_fabric.interfaces.cli.main import COMPLETED
from agent_fabric.interfaces.cli.options import Last, RunIdArgument
from agent_fabric.interfaces.cli.output import colour, plain, print_json, print_warning
from agent_fabric.interfaces.cli.place import Place, RunAccess, choose_run, with_run
from agent_fabric.wire.changes import diff_object

app = new_app("Show what a run changed.")

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_MAX_NAMED = 5


@app.command()
def diff(
    run_id: RunIdArgument = None,
    last: Last = False,
    stat: Annotated[bool, typer.Option("--stat", help="Only how much changed in each file.")] = False,
    name_only: Annotated[bool, typer.Option("--name-only", help="Only the names.")] = False,
    *,
    at: Place,
) -> int:
    """Show what a run changed in its folder, by tools and by commands, as a diff that `git apply` understands.

    Exit codes: 0 shown, 1 what was recorded cannot be read, 2 wrong usage or no such run.
    """
    if stat + name_only + at.as_json > 1:
        raise ConfigError("--stat, --name-only and --json cannot be combined", hint="Give one of them.")

    async def go(runs: RunAccess, chosen: RunId) -> RunDiff:
        found, compared = await runs.diff(chosen)
        if at.as_json:
            print_json(diff_object(found, compared))
        elif name_only:
            _write(f"{quote_path(change.path)}\n".encode() for change in found.changes)
        elif stat:
            _write(_stat(found, compared))
        else:
            _write(compared(change).text for change in found.changes)
        return found

    found = with_run(at, choose_run(run_id, last=last), go)
    if not at.as_json:
        _remark(found)
    return COMPLETED


def _write(pieces: Iterator[bytes]) -> None:
    """Write what others wrote: byte by byte into a file or a pipe, harmlessly into a terminal."""
    for piece in pieces:
        if not sys.stdout.isatty():
            sys.stdout.flush()
            sys.stdout.buffer.write(piece)
            continue
        for line in piece.decode(errors="replace").split("\n")[:-1]:
            style = _STYLES.get(line[:1])
            text = plain(line)
            sys.stdout.write(f"{colour(text, style, sys.stdout) if style else text}\n")
    sys.stdout.flush()


def _stat(found: RunDiff, compare: Callable[[FileChange], FileDiff]) -> Iterator[bytes]:
    added = removed = 0
    for change in found.changes:
        compared = compare(change)
        added, removed = added + compared.added, removed + compared.removed
        size = "binary" if compared.binary else f"+{compared.added} -{compared.removed}"
        yield f"{change.what:<9} {size:>14}  {quote_path(change.path)}\n".encode()
    paths, lines = count_of(len(found.changes), "path"), count_of(added, "line")
    yield f"{paths} changed, {lines} added, {removed} removed\n".encode()


def _remark(found: RunDiff) -> None:
    """Say what the diff does not show; on the error output, so that the diff stays one."""
    if not found.changes:
        sys.stderr.write("No changes.\n")
    if found.seen_now and not found.status.settled:
        print_warning("The run did not end normally. This shows its folder as it is now.")
    if final := [change for change in found.changes if change.why_final]:
        print_warning(f"Cannot be undone: {_list_paths([change.path for change in final])}")
    if told := [path for path in found.left_alone if path.rpartition("/")[2] not in REBUILDABLE]:
        print_warning(f"Not watched: {_list_paths(told)}")
    if found.undos:
        last = found.undos[-1]
        what = "put back again" if last.redo else "taken back"
        sys.stderr.write(f"Changes of this run were {what} by {plain(last.by)}.\n")


def _list_paths(paths: Sequence[str]) -> str:
    """Return paths as a list; on a terminal only the first of many."""
    most = _MAX_NAMED if sys.stderr.isatty() else len(paths)
    more = f" and {len(paths) - most:,} more" if len(paths) > most else ""
    return f"{', '.join(map(quote_path, paths[:most]))}{more}"
