"""Runs every test there is and fails if one failed or was skipped: nothing is taken on trust.

python scripts/validate_full.py [PYTEST OPTIONS]
"""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Skips:
    """Remembers which tests did not run."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            told = report.longrepr
            self.reasons[report.nodeid] = str(told[2]) if isinstance(told, tuple) else str(told)


def main() -> int:
    if os.environ.get("FABRIC_SKIP_REAL_LLM"):
        print("FABRIC_SKIP_REAL_LLM is set, so the tests with a real model would not run. Unset it.")
        return 2
    os.chdir(ROOT)
    skips = Skips()
    code = pytest.main(sys.argv[1:] or ["tests"], plugins=[skips])
    for test, reason in skips.reasons.items():
        print(f"NOT RUN: {test}: {reason}")
    if skips.reasons:
        print(f"{len(skips.reasons)} tests did not run, so this validates nothing.")
    return int(code) or (1 if skips.reasons else 0)


if __name__ == "__main__":
    sys.exit(main())
