"""What runs changed in their folders, and what was undone.

A path may have bytes that are no text. They are shown as escapes. An `exact` object has surrogates in their place, and
everything that is known about a file, so that it can be read back.
"""

from collections.abc import Callable
from typing import Annotated, Any

from agent_fabric.application.ports.changes import UndoRecord
from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.domain.runs.changes import Entry, FileChange
from agent_fabric.domain.runs.undo import UndoRefusal
from agent_fabric.domain.runs.unified_diff import FileDiff
from agent_fabric.wire.shape import Json, Shape

Differ = Callable[[FileChange], FileDiff | None]
"""Compares one file; None when there is no room for more."""


class _EntryShape(Shape[Entry]):
    def values(self, shown: Json) -> dict[str, Any]:
        return {**super().values(shown), "mode": int(shown["mode"], 8)}


_ENTRY = "kind mode=octal size digest"
_CHANGE = "path change=what before after undoable reason=why_final"
_DIFF = "run_id status folder seen_now changes not_watched=left_alone undone=undos"
_UNDONE = "run_id folder dry_run=dry record"
_UNDO = Shape(UndoRecord, "number at by redo finished", name="UndoSummary")
_COMPARED: dict[str, Any] = {
    "binary?": bool,
    "added?": Annotated[int, "Lines."],
    "removed?": int,
    "diff?": Annotated[str, "Unified, as git writes it. Left out when not asked for, or when the answer is too long."],
}
_EXACT_ENTRY = _EntryShape(Entry, f"{_ENTRY} kept mtime_ns ctime_ns inode uid gid")
_EXACT_CHANGE = Shape(FileChange, f"{_CHANGE} mixed doubtful", parts=[_EXACT_ENTRY])
DIFF = Shape(
    RunDiff,
    _DIFF,
    name="RunChanges",
    parts=[_UNDO, Shape(FileChange, _CHANGE, name="PathChange", parts=[Shape(Entry, _ENTRY)], also=_COMPARED)],
)
EXACT_DIFF = Shape(RunDiff, _DIFF, parts=[_UNDO, _EXACT_CHANGE])
UNDONE = Shape(
    Undone, f"{_UNDONE} done=paths already refused", name="UndoResult", parts=[Shape(UndoRefusal, name="UndoRefusal")]
)
EXACT_UNDONE = Shape(Undone, f"{_UNDONE} done=paths already refused steps=done", parts=[_EXACT_ENTRY])


def diff_object(found: RunDiff, differ: Differ | None, *, exact: bool = False) -> dict[str, Any]:
    """Return what a run changed; without a `differ` the contents are not compared."""
    shown = (EXACT_DIFF if exact else DIFF).dump(found)
    for change, line in zip(found.changes, shown["changes"], strict=True):
        compared = None if differ is None else differ(change)
        if compared is not None:
            line |= {"binary": compared.binary, "added": compared.added, "removed": compared.removed}
            line["diff"] = compared.text.decode(errors="surrogateescape")
    return shown if exact else _readable(shown)


def undo_object(undone: Undone, *, exact: bool = False) -> dict[str, Any]:
    """Return what was undone, and what was not."""
    return EXACT_UNDONE.dump(undone) if exact else _readable(UNDONE.dump(undone))


def file_diffs_from(shown: Json) -> dict[str, FileDiff]:
    """Return how paths changed, as far as there was room for it, from an exact object."""
    return {
        each["path"]: FileDiff(
            each["diff"].encode(errors="surrogateescape"), each["added"], each["removed"], each["binary"]
        )
        for each in shown["changes"]
        if each.get("diff") is not None
    }


def _readable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="surrogateescape").decode(errors="backslashreplace")
        case dict():
            return {key: _readable(each) for key, each in value.items()}
        case list():
            return [_readable(each) for each in value]
        case _:
            return value
