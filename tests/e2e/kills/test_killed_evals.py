"""An evaluation that is killed again and again, anywhere: every trial has one run and one outcome."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel, Slow
from e2e.fabric_process import Fabric, settings
from effort import effort, report

TRIALS = 12
SCRIPT = Script(
    turns=(
        Slow(Call("write_file", {"path": "out.txt", "content": "right"}), 0.05),
        Slow(Call("shell", {"command": "python3 -c 'print(1)'"}), 0.05),
        Slow(Finish(summary="wrote it"), 0.05),
    )
)


@pytest.mark.slow
async def test_kills_anywhere_repeat_nothing_and_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(16)
    cases = [
        {"id": f"c{n}", "prompt": "do it", "check": "sleep 0.1; grep -q right out.txt"} for n in range(TRIALS // 2)
    ]
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps({"packs": ["engineering"], "k": 2, "at_once": 3, "cases": cases}))
    kills, known = 0, dict[str, object]()
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        arguments: tuple[str, ...] = ("run", str(path))
        for _ in range(effort(5, 60)):
            started = await fabric.start("eval", *arguments)
            try:
                ended = await started.ended(timeout_s=chance.uniform(0.3, 1.6))
            except TimeoutError:
                kills += 1
            else:
                assert ended.code == 0, ended.err
            listed = (await fabric("eval", "list", "--json")).json["evals"]
            if not listed:
                continue  # killed before there was anything
            arguments = ("resume", "--last")
            shown = (await fabric("eval", "show", "--last", "--json")).json
            outcomes = {each["run_id"]: each for each in shown["trials"]}
            assert known.items() <= outcomes.items(), "an outcome has changed"
            known = outcomes
            if shown["status"] == "completed":
                break
        # Where the machine is so busy that nothing was begun before each kill, it is begun now.
        last = await fabric("eval", *arguments, "--json", timeout_s=120)
        runs = (await fabric("logs", "list", "--limit", "100", "--json")).json["runs"]
    assert last.code == 0, last.err
    assert (last.json["done"], last.json["right"]) == (TRIALS, TRIALS)
    assert set(Counter((each["case_id"], each["attempt"]) for each in last.json["trials"]).values()) == {1}
    assert len(runs) == TRIALS
    assert {run["status"] for run in runs} == {"completed"}
    assert not [path for path in (fabric.root / "runs").glob("*/*") if path.name in {"check", "start"}]
    report("kills of evaluations", kills)
