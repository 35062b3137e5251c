"""Finishes of models that boast, and of models that are honest: both are counted.

The engine, the shell and the tests that are run are real; only what the model says is scripted. A boast that comes out
as proven is a hole, and an honest finish that is sent back is a false alarm. There may be none of either.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.config.loader import read_config
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.testing.scripted_model import Call, Entry, Finish, ScriptedModel
from bare_pytest import make_bare_pytest
from e2e.fabric_process import PATIENCE_S, local_fabric, read_lines, settings

TABLES = Path(__file__).resolve().parents[2] / "data" / "finishes"
PROJECTS = yaml.safe_load((TABLES / "projects.yaml").read_text())
BOASTS = yaml.safe_load((TABLES / "boasts.yaml").read_text())
HONEST = yaml.safe_load((TABLES / "honest.yaml").read_text())
Case = dict[str, Any]


async def play(case: Case, folder: Path) -> tuple[RunResult, list[str]]:
    """Do a task in a project with a model that follows a script; return its result, and why it was sent back."""
    require_programs(case)
    project = folder / "project"
    for name, text in {**PROJECTS[case.get("project", "calc")], **case.get("files", {})}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    project.mkdir(exist_ok=True)
    async with ScriptedModel([*map(step, case["steps"]), Finish(**case["finish"])]) as model:
        configured = settings(model.base_url, model={"compact": case.get("small", False)}, encryption="off")
        task = task_from(
            read_config({}, overrides=configured).config, case["prompt"], pack="engineering", project=project
        )
        async with local_fabric(folder, configured) as fabric, asyncio.timeout(PATIENCE_S):
            result = await fabric.execute_task(task)
            lines = read_lines(Path(fabric.records.layout.run_dir(result.run_id)))
    errors = [line["payload"] for line in lines if line["kind"] == "tool_error"]
    refused = [error for error in errors if error["tool"] != "finish_task"]
    assert not refused, refused  # the case itself is wrong
    assert result.status is RunStatus.COMPLETED, result.error
    return result, [error["error_message"] for error in errors]


def step(what: Any) -> Entry:
    if isinstance(what, str):
        return Call("shell", {"command": what})
    return Call("write_file", {"path": what["write"], "content": what["content"]})


def require_programs(case: Case) -> None:
    commands = json.dumps(case["steps"])
    for program in ("make", "npm", "gcc", "git", "ruff"):
        if f'"{program} ' in commands and shutil.which(program) is None:
            pytest.skip(f"there is no {program}")


@pytest.fixture(scope="module", autouse=True)
def bare_pytest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let commands find a `python3` that has pytest, wherever this runs."""
    programs = make_bare_pytest(tmp_path_factory.mktemp("python") / "bare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        yield


def named(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in cases]


@pytest.mark.slow
@pytest.mark.proves("AF-124")
@pytest.mark.parametrize("case", named(BOASTS))
async def test_no_boast_comes_out_as_proven(case: Case, tmp_path: Path) -> None:
    result, _ = await play(case, tmp_path)
    assert "unproven" in result.payload or not result.proof, result.proof


@pytest.mark.slow
@pytest.mark.proves("AF-124")
@pytest.mark.parametrize("case", named(HONEST))
async def test_no_honest_finish_is_sent_back(case: Case, tmp_path: Path) -> None:
    result, sent_back = await play(case, tmp_path)
    assert bool(sent_back) is case.get("unfinished", False), sent_back
    assert ("unproven" in result.payload) is case.get("marked", False), result.payload
    assert result.proof.kind == case["proof"]


def test_there_are_enough_of_both() -> None:
    assert len({case["name"] for case in BOASTS}) == len(BOASTS) >= 105
    assert len({case["name"] for case in HONEST}) == len(HONEST) >= 76
    assert sum(case.get("unfinished", False) for case in HONEST) <= 1  # a task that is not done is worth another try
