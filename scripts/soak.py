"""Runs the long loops and prints what they proved: kills, fuzzers, simulation, real models.

    python scripts/soak.py [PART...]

Parts run one after another, all of them also after one failed. Each test tries what `tests/effort.py` asks of a soak.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]


class Part(NamedTuple):
    """What one pytest of a soak runs."""

    paths: tuple[str, ...]
    chosen: str = ""
    """The marker expression, all tests if empty."""
    fresh: bool = False
    """Whether every `fabric` process is a fresh interpreter."""
    store: str = ""
    """Where the runs of servers and commands are kept; empty: in a file."""


class Row(NamedTuple):
    """What came of a part."""

    part: str
    tests: int
    failed: int
    skipped: int
    minutes: float
    tried: tuple[tuple[str, int], ...]


PARTS: dict[str, Part] = {
    "kills": Part(("tests/e2e/kills", "tests/e2e/agents/test_task_force.py"), fresh=True),
    "weather": Part(("tests/e2e/cluster/test_chaos.py", "tests/e2e/cluster/test_plan_moves.py"), fresh=True),
    "automation": Part(
        # Time is simulated here; real servers that are killed around firings and deliveries belong to "kills".
        (
            "tests/unit/domain/automation",
            "tests/unit/application/automation",
            "tests/integration/persistence/test_postgres_firings.py",
        )
    ),
    "policy": Part(("tests/integration/policy/test_policy_fuzz.py", "tests/unit/domain/policy/test_command_lines.py")),
    "fleet": Part(
        tuple(
            f"tests/integration/fleet/test_{each}.py"
            for each in ("effectively_once", "operators_morning", "plan_restarts")
        )
    ),
    "races": Part(
        ("tests/integration/sandbox/test_file_tool_races.py", "tests/unit/infrastructure/runs/changes/test_pictures.py")
    ),
    "simulation": Part(("tests/simulation",)),
    "models": Part(
        # The browser comes last: its driver has an event loop of its own.
        ("tests/e2e/models", "tests/e2e/workflows", "tests/integration/llm", "tests/e2e/page/test_fresh_machine.py"),
        "soak",
    ),
    "growth": Part(("tests/e2e/server/test_growth.py",)),
    "training": Part(("tests/unit/training", "tests/e2e/training")),  # the steps that need torch skip without it
    "processes": Part(("tests/e2e",), "not soak", fresh=True),
    "postgres": Part(
        tuple(f"tests/integration/{each}" for each in ("http", "fleet", "channels", "page", "client")),
        "not soak",
        store="postgres",
    ),
}


def parts() -> dict[str, Part]:
    """Return all parts; what generates its inputs or asks for effort and is in none of them is a part of its own."""
    covered = [ROOT / path for part in PARTS.values() if not part.chosen for path in part.paths]
    generated = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        if not any(file.is_relative_to(path) for path in covered)
        and any(words in file.read_text() for words in ("from hypothesis import", "from effort import"))
    ]
    return {**PARTS, "generated": Part(tuple(generated))}


def run(name: str, part: Part) -> Row:
    """Run one part and count what it did."""
    with tempfile.TemporaryDirectory() as folder:
        table, results = Path(folder) / "table", Path(folder) / "results.xml"
        environment = {**os.environ, "FABRIC_SOAK_TABLE": str(table)}
        if name not in {"processes", "postgres"}:  # there the processes, or the store, are the point, not the loops
            environment["FABRIC_TEST_EFFORT"] = "soak"
        if part.fresh:
            environment["FABRIC_TEST_PROCESSES"] = "fresh"
        if part.store:
            environment["FABRIC_TEST_STORE"] = part.store
        begun = time.monotonic()
        chosen = ("-m", part.chosen) if part.chosen else ()
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junit-xml={results}", *chosen, *part.paths],
            cwd=ROOT,
            env=environment,
            check=False,
        )
        minutes = (time.monotonic() - begun) / 60
        counted = Counter[str]()
        for line in table.read_text().splitlines() if table.exists() else ():
            what, count = json.loads(line)
            counted[what] += count
        suite = ET.parse(results).getroot()[0].attrib if results.exists() else {}  # noqa: S314 - pytest's own
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        return Row(
            part=name,
            tests=int(suite.get("tests", 0)),
            failed=failed or int(ended.returncode != 0),
            skipped=int(suite.get("skipped", 0)),
            minutes=minutes,
            tried=tuple(sorted(counted.items())),
        )


def table(rows: list[Row]) -> str:
    """Return the rows as a table in Markdown, as it stands in `benchmarks/RESULTS.md`."""
    lines = ["| part | tests | failed | skipped | minutes | what was tried |", "|---|---|---|---|---|---|"]
    for row in rows:
        tried = "; ".join(f"{count:,} {what}" for what, count in row.tried)
        lines.append(f"| {row.part} | {row.tests} | {row.failed} | {row.skipped} | {row.minutes:.1f} | {tried} |")
    return "\n".join(lines)


def main() -> int:
    known = parts()
    parser = argparse.ArgumentParser(description="Run the long loops and print what they proved.")
    parser.add_argument("parts", metavar="PART", nargs="*", help=f"of: {', '.join(known)}; all without one")
    wanted = parser.parse_args().parts or list(known)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(known)}")
    rows = []
    for name in wanted:
        print(f"== {name}", flush=True)
        rows.append(run(name, known[name]))
    print(table(rows))
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
