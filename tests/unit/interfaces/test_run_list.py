"""A list of runs is one line each at a terminal, whatever its width, and whole in a pipe."""

import io
import time
from dataclasses import replace

import pytest

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.cli.runs.run_list import run_lines
from unit.interfaces.test_fitted_lines import Terminal

pytestmark = pytest.mark.proves("DU-10")

TASK = "Repair the tests of dates, " * 10
FIRST, SECOND = "f306fa4b-50f7-40f3-bc3d-79daf66c6f4a", "f306fa4b-60f7-40f3-bc3d-79daf66c6f4a"


def record(run_id: str = FIRST, *, owner: str = "local", private: bool = False, created_at: float = 0.0) -> RunRecord:
    return RunRecord(
        run_id=RunId(run_id),
        status=RunStatus.COMPLETED,
        created_at=created_at or time.time(),
        updated_at=0.0,
        prompt=TASK,
        specialist_ids=("engineering",),
        summary="",
        owner=owner,
        visibility=Visibility.PRIVATE if private else Visibility.TEAM,
        continues=RunId(SECOND) if private else None,
    )


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_at_a_terminal_each_run_is_one_line(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    lines = list(run_lines([record(), record("0" * 36, owner="user:grace", private=True)], Terminal()))
    assert all(len(line) < columns for line in lines)
    assert lines[0].startswith("f306fa4b  ")
    assert "user:" not in lines[1]
    assert "grace (private)  (continues f306fa4b) Rep" in lines[1]
    assert ("engineering" in lines[0]) == (columns > 110)


@pytest.mark.proves("DU-10")
def test_a_second_line_shows_where_a_search_found_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    said = replace(record(), matched=f"… said that\x1b[8m connection refused {'by db1 ' * 20}…")
    lines = list(run_lines([said, replace(record(SECOND), matched=TASK[:20])], Terminal()))
    assert len(lines) == 3, "what stands in the task needs no second line"
    assert lines[1].startswith("  … said that [8m connection refused by db1")
    assert len(lines[1]) < 80
    assert len(list(run_lines([said], io.StringIO()))) == 1, "a line for each run in pipes"


def test_ids_are_as_long_as_it_takes_to_tell_them_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    one, other = run_lines([record(), record(SECOND)], Terminal())
    assert (one.split()[0], other.split()[0]) == ("f306fa4b-5", "f306fa4b-6")
    (alone,) = run_lines([record(created_at=1_600_000_000.0)], Terminal())
    assert "  2020-09-13   completed    Repair" in alone, "no owner where all are of this folder"


def test_in_a_pipe_all_of_it_is_there() -> None:
    (line,) = run_lines([record(owner="user:grace")], io.StringIO(), scores=[0.5])
    assert line.startswith(f" 0.50  {FIRST}  {time.strftime('%Y-')}")
    assert line.endswith(f"engineering   user:grace    {TASK.strip()}")
    assert list(run_lines([], io.StringIO())) == list(run_lines([], Terminal())) == []
