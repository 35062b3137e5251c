"""`make test` runs suite by suite: no test may lie outside of them."""

import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_belongs_to_a_suite_that_make_runs() -> None:
    told = subprocess.run(["make", "-s", "suites"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    suites = [ROOT / line for line in told.stdout.split()]
    left_out = [
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("test_*.py")
        if not any(file.is_relative_to(suite) for suite in suites)
    ]
    assert left_out == []


def test_every_suite_is_in_a_part_of_make_test() -> None:
    """`make suites` says what there is; what is run is what the parts of `make test` name."""
    dry = ["make", "-n", "--no-print-directory"]
    told = subprocess.run([*dry, "test"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    (line,) = [line for line in told.stdout.splitlines() if "side_by_side.py" in line]
    parts = line.partition(" types ")[2].split()
    made = subprocess.run([*dry, *parts], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    run = {word for line in made.stdout.splitlines() if " pytest " in line for word in line.split()}
    suites = subprocess.run(["make", "-s", "suites"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    files = {str(file.relative_to(ROOT)) for file in (ROOT / "tests/integration/http").glob("test_*.py")}
    assert (set(suites.stdout.split()) - {"tests/integration/http"} | files) - run == set()


def test_no_test_has_a_name_that_the_suites_overlook() -> None:
    """pytest would find these, the rules about suites would not."""
    assert [str(file) for file in (ROOT / "tests").rglob("*_test.py")] == []


def test_every_test_that_only_a_soak_runs_is_in_a_part_of_it() -> None:
    marked = [file for file in (ROOT / "tests").rglob("test_*.py") if f"mark.{'soak'}" in file.read_text()]
    parts = runpy.run_path(str(ROOT / "scripts/soak.py"))["PARTS"].values()
    soaked = [ROOT / path for part in parts if part.chosen in {"", "soak"} for path in part.paths]
    assert marked
    assert [str(file) for file in marked if not any(file.is_relative_to(folder) for folder in soaked)] == []


def test_parts_made_side_by_side_all_run_and_those_that_failed_are_named(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("bad:\n\t@echo broken; exit 3\ngood:\n\t@echo fine\n.PHONY: bad good\n")
    side_by_side = [sys.executable, str(ROOT / "scripts/side_by_side.py")]
    done = subprocess.run(
        [*side_by_side, "bad", "good"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "== bad: FAILED\nbroken" in done.stdout
    assert "== good: passed\nfine" in done.stdout
    assert done.stdout.endswith("FAILED: bad\n")
    done = subprocess.run(
        [*side_by_side, "good"], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "All passed: good")
