"""What a run changed, as JSON has it."""

import os
from collections.abc import Callable
from typing import Any

from agent_fabric.application.runs.diff_run import RunDiff
from agent_fabric.application.runs.undo_run import Undone
from agent_fabric.domain.changes import Entry, FileChange
from agent_fabric.domain.unified_diff import FileDiff

Differ = Callable[[FileChange], FileDiff | None]
"""Compares one file; None when there is no room for more."""


def diff_object(found: RunDiff, differ: Differ | None) -> dict[str, Any]:
    """Return what a run changed; without a `differ` the contents are not compared."""
    return {
        "run_id": found.run_id,
        "status": str(found.status),
        "folder": readable(found.folder),
        "seen_now": found.seen_now,
        "changes": [_change(change, differ) for change in found.changes],
        "not_watched": [readable(path) for path in found.left_alone],
        "undone": [
            {"number": one.number, "at": one.at, "by": one.by, "redo": one.redo, "finished": one.finished}
            for one in found.undos
        ],
    }


def undo_object(undone: Undone) -> dict[str, Any]:
    """Return what was taken back, and what was not."""
    return {
        "run_id": undone.run_id,
        "folder": readable(undone.folder),
        "dry_run": undone.dry,
        "record": undone.record,
        "done": [readable(step.path) for step in undone.done],
        "already": [readable(path) for path in undone.already],
        "refused": [{"path": readable(one.path), "reason": one.reason, "final": one.final} for one in undone.refused],
    }


def exact_diff(found: RunDiff, differ: Differ | None) -> dict[str, Any]:
    """Return the same such that `RunDiff` can be made of it again: bytes that are no text stand in it as surrogates."""
    shown = diff_object(found, None)
    shown["folder"], shown["not_watched"] = found.folder, list(found.left_alone)
    shown["changes"] = [_exact_change(change, differ) for change in found.changes]
    return shown


def exact_undo(undone: Undone) -> dict[str, Any]:
    """Return the same such that `Undone` can be made of it again."""
    return {
        **undo_object(undone),
        "folder": undone.folder,
        "already": list(undone.already),
        "refused": [one._asdict() for one in undone.refused],
        "steps": [
            {"path": step.path, "current": _exact_entry(step.current), "target": _exact_entry(step.target)}
            for step in undone.done
        ],
    }


def within(path: str, folder: str) -> str:
    """Return a path counted from the folder that a run works in."""
    return os.path.relpath(path, folder) if path.startswith(f"{folder}/") else path


def readable(path: str) -> str:
    """Return a path as text that JSON can carry: bytes that are none are shown as escapes."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _change(change: FileChange, differ: Differ | None) -> dict[str, Any]:
    value: dict[str, Any] = {
        "path": readable(change.path),
        "change": change.what,
        "before": _entry(change.before),
        "after": _entry(change.after),
        "undoable": not change.why_final,
        "reason": change.why_final,
    }
    found = None if differ is None else differ(change)
    if found is not None:
        value |= {"binary": found.binary, "added": found.added, "removed": found.removed}
        value["diff"] = found.text.decode(errors="backslashreplace")
    return value


def _exact_change(change: FileChange, differ: Differ | None) -> dict[str, Any]:
    value = {
        **_change(change, None),
        "path": change.path,
        "before": _exact_entry(change.before),
        "after": _exact_entry(change.after),
        "mixed": change.mixed,
        "doubtful": change.doubtful,
    }
    found = None if differ is None else differ(change)
    if found is not None:
        value |= {"binary": found.binary, "added": found.added, "removed": found.removed}
        value["diff"] = found.text.decode(errors="surrogateescape")
    return value


def _exact_entry(entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else {**entry._asdict(), "kind": entry.kind.value, "mode": f"{entry.mode:04o}"}


def _entry(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {"kind": entry.kind.value, "mode": f"{entry.mode:04o}", "size": entry.size, "digest": readable(entry.digest)}
