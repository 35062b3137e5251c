"""How strong the box is, is said where a person looks first."""

import json
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, settings


@pytest.mark.slow
@pytest.mark.parametrize("level", ["auto", "C"])
async def test_a_run_says_its_level_before_anything_else(tmp_path: Path, level: str) -> None:
    async with ScriptedModel(Script([Finish(summary="done")])) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, sandbox={"level": level}))
        ended = await fabric("run", "do nothing")
    (log,) = [each / "runlog.jsonl" for each in fabric.run_dirs()]
    first = json.loads(log.read_text().splitlines()[0])
    used = first["payload"]["sandbox"]
    assert (first["kind"], used in ({"C"} if level == "C" else {"A", "B", "C"})) == ("run_created", True)
    assert f"sandbox {used}: " in (ended.err + ended.out).splitlines()[0]
