"""The full validation takes nothing on trust."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/validate_full.py"
SKIPPED = "import pytest\n\n@pytest.mark.skip(reason='no model')\ndef test_nothing(): ...\n"
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:schemathesis")  # a plugin that takes long to import
ALL_RUN = "def test_something(): ...\n"


def validate(tests: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if name != "FABRIC_SKIP_REAL_LLM"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *OPTIONS, "--rootdir", str(tests.parent), str(tests)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.proves("AF-173", "C36")
def test_a_skipped_test_fails_the_full_validation(tmp_path: Path) -> None:
    tests = tmp_path / "test_some.py"
    tests.write_text(ALL_RUN)
    assert validate(tests).returncode == 0
    tests.write_text(SKIPPED)
    done = validate(tests)
    assert done.returncode == 1
    assert "no model" in done.stdout
    assert "1 tests did not run" in done.stdout
    assert validate(tests, FABRIC_SKIP_REAL_LLM="1").returncode == 2
