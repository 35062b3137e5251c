"""What sensors notice, and which runs come of it."""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId

MAX_DEPTH: Final = 8
"""Runs that may start each other through events; then a loop is ended."""
_RUNS: Final = uuid.UUID("c3f3f9b2-52cf-4a0c-8f3f-0d3a7b0a4d52")
"""Namespace of the ids of runs that happenings start."""
Stamp = tuple[int, int]
"""When a file was changed, in nanoseconds, and its size."""


class Happening(NamedTuple):
    """Something that a sensor noticed. Its payload is not trusted."""

    key: str
    """The same, whenever the same thing is noticed again."""
    payload: Mapping[str, Any]


class Look(NamedTuple):
    """What a look at the world has shown."""

    cursor: Any
    """Where the next look goes on; JSON."""
    happenings: Sequence[Happening]
    reason: str
    """Why there are happenings, or none, for people."""


def run_of_happening(sensor: str, key: str) -> RunId:
    """Return the id of the run that a happening starts: the same one, however often it is noticed."""
    return RunId(str(uuid.uuid5(_RUNS, f"{sensor} {key}")))


@dataclass(slots=True)
class FileCursor:
    """The files of a folder as they were last seen."""

    known: dict[str, Stamp] = field(default_factory=dict)
    unsettled: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    """Files that have changed and may still be written: their stamp, and since when they have it."""

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "FileCursor":
        """Return the cursor that was kept."""
        return cls(
            {path: (int(at), int(size)) for path, (at, size) in plain["known"].items()},
            {path: (int(at), int(size), float(since)) for path, (at, size, since) in plain["unsettled"].items()},
        )

    def plain(self) -> dict[str, Any]:
        return {"known": self.known, "unsettled": self.unsettled}


def changed_files(
    cursor: FileCursor, seen: Mapping[str, Stamp], now: float, settle_s: float
) -> tuple[FileCursor, list[tuple[str, str]]]:
    """Return the files that have changed and are no longer being written, each with what became of it."""
    known = dict(cursor.known)
    unsettled: dict[str, tuple[int, int, float]] = {}
    changes: list[tuple[str, str]] = []
    for path, stamp in seen.items():
        if known.get(path) == stamp:
            continue
        before = cursor.unsettled.get(path)
        since = before[2] if before is not None and before[:2] == stamp else now
        if now - since >= settle_s:
            changes.append((path, "modified" if path in known else "created"))
            known[path] = stamp
        else:
            unsettled[path] = (*stamp, since)
    for path in cursor.known.keys() - seen.keys():
        changes.append((path, "deleted"))
        del known[path]
    return FileCursor(known, unsettled), sorted(changes)


def change_happening(changes: Sequence[tuple[str, str]], cursor: FileCursor) -> Happening:
    """Return one happening for files that have changed together."""
    told = "\n".join(f"{what} {path} {cursor.known.get(path)}" for path, what in changes)
    key = hashlib.sha256(told.encode(errors="surrogateescape")).hexdigest()
    shown = [{"path": _printable(path), "change": what} for path, what in changes]
    return Happening(key, {"changes": shown, "paths": [each["path"] for each in shown]})


def _printable(path: str) -> str:
    return path.encode(errors="surrogateescape").decode(errors="replace")
