"""Sensors that the configuration and files of workflows ask for; ours look at files.

They poll: a scan also finds what changed while no one watched, and what network file systems never tell about.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.automation import Sensor
from agent_fabric.config.schema.automation import SensorConfig
from agent_fabric.domain.automation.sensing import FileCursor, Happening, Look, Stamp, change_happening, changed_files
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.policy.globs import may_fit_below
from agent_fabric.infrastructure.packs.plugins import open_packaged_sensor

SKIPPED = frozenset({".fabric", ".git"})
MAX_FILES = 1_000_000


@dataclass(slots=True)
class FileChangeSensor:
    """Sensor that notices files which fit a pattern and have been created, modified or deleted."""

    root: Path
    patterns: Sequence[str]
    settle_s: float = 2.0
    """A file whose size or date changed within this time is still being written."""
    now: Callable[[], float] = time.time
    _kept: tuple[Any, FileCursor] | None = None
    """The cursor of the last look, read already."""
    scan_s: float = field(default=0.0)
    """How much processor time the last scan took."""

    async def look(self, cursor: Any) -> Look:
        """Compare the files with those of the last look; the first look only learns what there is."""
        seen = await asyncio.to_thread(self._scan)
        if cursor is None:
            first = FileCursor(seen)
            return Look(self._keep(first), (), f"first look: {len(seen)} files")
        kept = self._kept
        known = kept[1] if kept is not None and (kept[0] is cursor or kept[0] == cursor) else FileCursor.of(cursor)
        after, changes = changed_files(known, seen, self.now(), self.settle_s)
        if not changes:
            waits = f", {len(after.unsettled)} still being written" if after.unsettled else ""
            same = after.known == known.known and after.unsettled == known.unsettled
            return Look(cursor if same else self._keep(after), (), f"nothing changed in {len(seen)} files{waits}")
        return Look(self._keep(after), (change_happening(changes, after),), f"{len(changes)} files changed")

    def _keep(self, cursor: FileCursor) -> Any:
        plain = cursor.plain()
        self._kept = (plain, cursor)
        return plain

    def _scan(self) -> dict[str, Stamp]:
        before = time.thread_time()
        found = dict(scan(self.root, self.patterns))
        self.scan_s = time.thread_time() - before
        return found


def scan(root: Path, patterns: Sequence[str]) -> Iterator[tuple[str, Stamp]]:
    """Return the files below a folder that fit a pattern, with their stamps; links are not followed."""
    folders, count, fits = [""], 0, _matcher(tuple(patterns))
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(root / folder if folder else root))
        except OSError:
            continue  # it was removed a moment ago, or is not ours to read
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in SKIPPED and any(may_fit_below(each, path) for each in patterns):
                        folders.append(path)
                elif fits(path):
                    found = entry.stat(follow_symlinks=False)
                    count += 1
                    yield path, (found.st_mtime_ns, found.st_size)
            except OSError:
                continue  # as above
        if count > MAX_FILES:
            return


@cache
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """Return what tells whether a path fits; the same as `path_fits`, for a hundred thousand of them."""
    return re.compile("|".join(map(_regex, patterns)), re.DOTALL).fullmatch


def _regex(pattern: str) -> str:
    if pattern.endswith("/"):
        pattern += "**"
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    parts = [part for part in pattern.split("/") if part != "."]
    found = ""
    for nth, part in enumerate(parts):
        last = nth == len(parts) - 1
        if part == "**":
            found += ".*" if last else "(?:[^/]+/)*"
        else:
            name = translate(part).removeprefix("(?s:").removesuffix(")\\Z").replace(".*", "[^/]*")
            found += name if last else f"{name}/"
    return f"(?:{found})"


@dataclass(frozen=True, slots=True)
class FreshnessSensor:
    """Sensor that notices when the newest file that fits a pattern is older than it should be; once each time."""

    root: Path
    patterns: Sequence[str]
    max_age_s: float
    now: Callable[[], float] = time.time

    async def look(self, cursor: Any) -> Look:
        """Compare the newest file with its greatest age."""
        seen = await asyncio.to_thread(lambda: dict(scan(self.root, self.patterns)))
        newest = max(seen.items(), key=lambda each: each[1][0], default=None)
        at = None if newest is None else newest[1][0]
        age = None if at is None else self.now() - at / 1e9
        if age is not None and age <= self.max_age_s:
            return Look({"stale": None}, (), f"fresh: the newest of {len(seen)} files is {age:.0f} s old")
        told = "there is no such file" if newest is None else f"{newest[0]} is {age:.0f} s old"
        known: Mapping[str, Any] = cursor or {}
        if known.get("stale", "") == at:
            return Look(cursor, (), f"still stale, and told before: {told}")
        payload = {"newest": None if newest is None else newest[0], "age_s": age, "max_age_s": self.max_age_s}
        return Look({"stale": at}, (Happening(f"stale since {at}", payload),), f"stale: {told}")


def open_sensor(home: Path, name: str, config: SensorConfig) -> Sensor | None:
    """Return a sensor, whose patterns begin at `home`; None: it is told of events, and does not look.

    Raises:
        ConfigError: it cannot be made.
    """
    match config.kind:
        case "file_change":
            return FileChangeSensor(home, config.paths, config.settle_s)
        case "freshness" if config.max_age_s is not None:
            return FreshnessSensor(home, config.paths, config.max_age_s)
        case "freshness":
            raise ConfigError(
                f"The sensor {name!r} needs max_age_s", hint="How old the newest file may be, in seconds."
            )
        case "event":
            return None
        case other:
            packaged: Sensor = open_packaged_sensor(other, config.options)
            return packaged
