"""What a run changed in a project, in a few lines, and how to see it and take it back."""

import sys
from collections.abc import Callable
from typing import Final

from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.domain.runs.changes import FileChange
from agent_fabric.domain.runs.unified_diff import FileDiff, quote_path
from agent_fabric.interfaces.cli.output import styled
from agent_fabric.interfaces.cli.runs.foreground import NOTHING

MAX_NAMED: Final = 10
"""Paths that are listed at a terminal."""
MAX_COMPARED: Final = 500
"""Changed paths whose lines are counted; more would keep a person waiting."""


def change_summary(found: RunDiff, compare: Callable[[FileChange], FileDiff]) -> str:
    """Return the number of changed files and lines, the files, and the commands to see and revert the changes."""
    changes = found.changes
    if not changes:
        return NOTHING
    files = f"{len(changes):,} {'file' if len(changes) == 1 else 'files'}"
    if len(changes) > MAX_COMPARED:
        lines = [f"changed: {files}"]
    else:
        compared = [compare(change) for change in changes]
        added, removed = (sum(counts) for counts in zip(*((one.added, one.removed) for one in compared), strict=True))
        lines = [f"changed: {files}, {_counts(added, removed)}"]
        named = MAX_NAMED if sys.stdout.isatty() else len(changes)
        lines += [
            f"  {change.what:<9} {'binary' if one.binary else _counts(one.added, one.removed)}  "
            f"{quote_path(change.path)}"
            for change, one in zip(changes[:named], compared, strict=False)
        ]
        if len(changes) > named:
            lines.append(f"  … and {len(changes) - named:,} more")
    return "\n".join([*lines, f"diff:  fabric diff {found.run_id}", f"undo:  fabric undo {found.run_id}"]) + "\n"


def _counts(added: int, removed: int) -> str:
    return f"{styled(f'+{added}', 'green', sys.stdout)} {styled(f'-{removed}', 'red', sys.stdout)}"
