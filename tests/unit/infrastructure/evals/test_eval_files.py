"""Eval files on disk: folders, links, and the files of this repository, whose tasks are frozen."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from agent_fabric.domain.evals.check import EvalInvalid
from agent_fabric.domain.evals.definition import EvalDefinition
from agent_fabric.infrastructure.evals.eval_files import read_eval

REPOSITORY = Path(__file__).resolve().parents[4]
TOOL_TASKS = REPOSITORY / "benchmarks" / "tool_tasks"
FROZEN = {
    "everyday": "ec4627d84a58501e",
    "everyday2": "e4d94cd42f7edeb4",
    "everyday3": "5564dca10c7d8498",
    "everyday4": "1a698b3178f847c1",
    "everyday5": "57df281ec6daf69a",
    "everyday6": "1fe611e4226387de",
    "everyday7": "20726b7618a8899b",
    "everyday_left_out": "9b8f5884b63e1d5d",
    "hard": "fb2418ceb1af5be7",
    "heldout": "ba200a47e18a2be8",
}
"""Hashes of ids, prompts and files. The figures in RESULTS.md belong to exactly these: they never change."""


def written(folder: Path, case: str, more: str = "") -> Path:
    path = folder / "small.yaml"
    path.write_text(f"{more}cases:\n- id: a\n  prompt: Do it.\n  check: 'true'\n{case}")
    return path


def refusal(path: Path) -> str:
    with pytest.raises(EvalInvalid) as caught:
        read_eval(path)
    return caught.value.message


def tasks_of(definition: EvalDefinition) -> str:
    plain = [
        [case.case_id, case.prompt, sorted((name, file.data.decode()) for name, file in case.files.items())]
        for case in definition.cases
    ]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", FROZEN)
def test_the_tasks_of_the_benchmark_are_frozen(name: str) -> None:
    definition = read_eval(TOOL_TASKS / f"{name}.yaml")
    assert (definition.name, definition.packs, definition.max_steps) == (name, ("engineering",), 12)
    assert tasks_of(definition) == FROZEN[name]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("evals/*.yaml")), ids=lambda path: path.name)
def test_the_examples_can_be_run(path: Path) -> None:
    assert read_eval(path).cases


def test_it_is_called_like_its_file_unless_it_says_otherwise(tmp_path: Path) -> None:
    assert read_eval(written(tmp_path, "")).name == "small"
    assert read_eval(written(tmp_path, "", "name: other\n")).name == "other"


def test_a_folder_brings_its_files_and_files_by_name_count_more(tmp_path: Path) -> None:
    folder = tmp_path / "fixtures" / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "logo.png").write_bytes(b"\x89PNG\x00")
    (folder / "run.sh").write_text("echo hi\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "read.me").write_text("old")
    (case,) = read_eval(written(tmp_path, "  folder: fixtures/shop\n  files: {read.me: new}\n")).cases
    assert {name: (file.data, file.executable) for name, file in case.files.items()} == {
        "src/logo.png": (b"\x89PNG\x00", False),
        "run.sh": (b"echo hi\n", True),
        "read.me": (b"new", False),
    }


@pytest.mark.parametrize("folder", ["../elsewhere", "/etc", ".", "away"])
def test_a_folder_that_lies_elsewhere_is_refused(tmp_path: Path, folder: str) -> None:
    here, away = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    away.mkdir()
    (here / "away").symlink_to(away)
    said = refusal(written(here, f"  folder: {folder}\n"))
    assert "small.yaml:5:3" in said
    assert "beside the file" in said or "leads out" in said


def test_a_folder_with_a_link_or_a_pipe_is_refused(tmp_path: Path) -> None:
    for make in (lambda path: path.symlink_to("/etc/passwd"), os.mkfifo):
        folder = tmp_path / "case"
        folder.mkdir(exist_ok=True)
        path = folder / "odd"
        make(path)
        assert "'odd' is neither a file nor a folder" in refusal(written(tmp_path, "  folder: case\n"))
        path.unlink()


def test_what_is_no_eval_file_is_said(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(tmp_path / "none.yaml")
    assert "the name does not show the format" in refusal(tmp_path / "none.txt")
    path = tmp_path / "bad.yaml"
    path.write_text("cases: [\n")
    assert "bad.yaml:" in refusal(path)
