"""Shows that this installation works: a real model does a real task with real tools.

    python scripts/verify_working_real.py [--model-key KEY] [--keep]

Takes the model that `fabric run` would take, whatever that is. Exits with 0 when the model called a tool, the tool
worked, the file is there and does what was asked; with 1 when not, saying what is missing.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TASK = "Create a file add.py that prints the sum of 19 and 23. Run it with python3 add.py and tell me what it printed."
EXPECTED = "42"
TIMEOUT_S = 1_800
"""A download may come first, and a slow machine writes five words a second."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model-key", help="the configured model to use")
    parser.add_argument("--keep", action="store_true", help="keep the run, to look at it")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fabric-verify-"))
    problems = _verify(folder, options.model_key)
    if options.keep or problems:
        print(f"run kept in {folder}")
    else:
        shutil.rmtree(folder)
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


def _verify(folder: Path, model_key: str | None) -> list[str]:
    command = [sys.executable, "-m", "agent_fabric", "run", "--json", "--verbose", "--pack", "engineering"]
    command += ["--workspace", str(folder / ".fabric"), *(["--model-key", model_key] if model_key else []), TASK]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return [f"the command gave no result and exited with {done.returncode}"]
    meta = result.get("_meta", {})
    print(f"status {meta.get('status')}, model {meta.get('model')}, {meta.get('steps')} steps")
    print(f"summary: {result.get('summary')}")
    if done.returncode != 0:
        return [f"the run ended with {done.returncode}: {result.get('error')}"]
    lines = [json.loads(line) for line in (Path(meta["run_dir"]) / "runlog.jsonl").read_text("utf-8").splitlines()]
    kinds = {line["kind"] for line in lines}
    problems = [f"the log has no {kind}" for kind in ("tool_call", "tool_result", "run_complete") if kind not in kinds]
    return problems + _problems_with_file(Path(meta["workspace"]) / "add.py")


def _problems_with_file(file: Path) -> list[str]:
    if not file.is_file():
        return [f"{file.name} was not made"]
    ran = subprocess.run([sys.executable, file.name], cwd=file.parent, capture_output=True, text=True, check=False)
    print(f"{file.name} prints {ran.stdout.strip()!r}")
    return [] if EXPECTED in ran.stdout else [f"{file.name} does not print {EXPECTED}"]


if __name__ == "__main__":
    sys.exit(main())
