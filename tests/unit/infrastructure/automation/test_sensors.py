"""Sensors that look at files."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_fabric.domain.policy.globs import path_fits
from agent_fabric.infrastructure.automation.sensors import FileChangeSensor, FreshnessSensor, _matcher, scan

PATTERNS = ("src/**", "*.txt", "a/*/c", "docs/", "**/x.py", "in[bp]ox/?.csv", "a.b")
PATHS = ("src/a", "src/a/b", "x.txt", "d/x.txt", "a/b/c", "a/b/d/c", "docs/a/b", "x.py", "q/x.py", "inbox/1.csv", "aXb")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_what_they_mean_in_rules(pattern: str) -> None:
    fits = _matcher((pattern,))
    assert [bool(fits(path)) for path in PATHS] == [path_fits(pattern, path) for path in PATHS]


async def test_files_that_are_created_changed_and_deleted_are_noticed_once_they_are_settled(tmp_path: Path) -> None:
    now = 1_000.0
    sensor = FileChangeSensor(tmp_path, ("*.txt",), settle_s=5.0, now=lambda: now)
    look = await sensor.look(None)
    assert (look.happenings, look.reason) == ((), "first look: 0 files")
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "b.log").write_text("x")
    look = await sensor.look(look.cursor)
    assert look.happenings == ()
    now += 3
    (tmp_path / "a.txt").write_text("longer")
    look = await sensor.look(look.cursor)
    now += 4
    look = await sensor.look(look.cursor)
    assert look.happenings == (), "it was written to four seconds ago"
    now += 2
    look = await FileChangeSensor(tmp_path, ("*.txt",), settle_s=5.0, now=lambda: now).look(look.cursor)
    (happening,) = look.happenings
    assert happening.payload == {"changes": [{"path": "a.txt", "change": "created"}], "paths": ["a.txt"]}
    assert (await sensor.look(look.cursor)).happenings == ()
    (tmp_path / "a.txt").unlink()
    (gone,) = (await sensor.look(look.cursor)).happenings
    assert gone.payload["changes"] == [{"path": "a.txt", "change": "deleted"}]


async def test_something_stale_is_told_once(tmp_path: Path) -> None:
    sensor = FreshnessSensor(tmp_path, ("*.csv",), max_age_s=60.0)
    missing = await sensor.look(None)
    assert len(missing.happenings) == 1
    assert (await sensor.look(missing.cursor)).happenings == ()
    (tmp_path / "a.csv").write_text("x")
    fresh = await sensor.look(missing.cursor)
    assert fresh.happenings == ()
    os.utime(tmp_path / "a.csv", (1_000, 1_000))
    stale = await sensor.look(fresh.cursor)
    assert len(stale.happenings) == 1
    assert (await sensor.look(stale.cursor)).happenings == ()


def _look_at_each(root: Path) -> int:
    """Do the least that a scan can do: list each folder, and look at each file."""
    files = [entry for folder in os.scandir(root) for entry in os.scandir(folder.path)]
    return len([entry.stat(follow_symlinks=False) for entry in files if entry.is_file(follow_symlinks=False)])


def _processor_s(work: Callable[[], int], count: int) -> float:
    before = time.process_time()
    assert work() == count
    return time.process_time() - before


@pytest.mark.slow
def test_a_scan_of_many_files_takes_little_more_than_looking_at_them(tmp_path: Path) -> None:
    count = 20_000
    for folder in range(count // 500):
        (tmp_path / f"d{folder}").mkdir()
        for name in range(500):
            (tmp_path / f"d{folder}" / f"f{name}").touch()
    # Side by side, and the best of five: a busy machine slows either of the two down for a moment.
    ratios = [
        _processor_s(lambda: len(dict(scan(tmp_path, ("**",)))), count)
        / _processor_s(lambda: _look_at_each(tmp_path), count)
        for _ in range(5)
    ]
    assert min(ratios) < 2
