"""The checks of frozen sets, without a model: right work passes them; wrong work, and none, does not."""

import subprocess
from pathlib import Path

import pytest
import yaml

from agent_fabric.domain.evals.definition import EvalCase
from agent_fabric.infrastructure.evals.eval_files import read_eval

REPOSITORY = Path(__file__).resolve().parents[4]
SETS = ("everyday3", "everyday4", "everyday5", "everyday6", "everyday7")
CASES = {
    (name, case.case_id): case
    for name in SETS
    for case in read_eval(REPOSITORY / "benchmarks" / "tool_tasks" / f"{name}.yaml").cases
}
SOLUTIONS = {
    (name, case_id): ways
    for name in SETS
    for case_id, ways in yaml.safe_load((REPOSITORY / "tests" / "data" / f"{name}_solutions.yaml").read_text()).items()
}


def is_right(case: EvalCase, folder: Path, commands: str) -> bool:
    """Do a task with bash in a new folder, and check it as an evaluation does."""
    for name, file in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(file.data)
    folder.mkdir(exist_ok=True)
    subprocess.run(["bash", "-c", commands], cwd=folder, check=False, capture_output=True, timeout=20)
    for name, file in case.check_files.items():
        (folder / name).write_bytes(file.data)
    checked = subprocess.run(["bash", "-c", case.check], cwd=folder, check=False, capture_output=True, timeout=20)
    return checked.returncode == 0


def test_every_task_has_solutions() -> None:
    assert list(SOLUTIONS) == list(CASES)
    assert len(CASES) == 20 * len(SETS)


@pytest.mark.slow  # about six commands and checks for each
@pytest.mark.parametrize("task", CASES, ids="-".join)
def test_the_check_tells_right_from_wrong(task: tuple[str, str], tmp_path: Path) -> None:
    case, ways = CASES[task], SOLUTIONS[task]
    tried = [(commands, True) for commands in ways["right"]] + [
        (commands, False) for commands in ["true", *ways["wrong"]]
    ]
    judged = [(commands, is_right(case, tmp_path / str(at), commands)) for at, (commands, _) in enumerate(tried)]
    assert judged == tried
