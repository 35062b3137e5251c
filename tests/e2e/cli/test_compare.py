"""Two runs beside each other, as a person compares them: here and at a server."""

import json
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving

pytestmark = pytest.mark.proves("TT-9")

WRITE = Call("write_file", {"path": "calc.py", "content": "def add(a, b):\n    return a + b\n"})
LOOK = Call("shell", {"command": "python3 calc.py"})
WRONG = Call("write_file", {"path": "calc.py", "content": "def add(a, b):\n    return a - b\n"})
SCRIPT = Script(
    turns=(WRITE, LOOK, Finish(summary="calc.py adds.", artifacts=["calc.py"])),
    named={
        "wrong": (
            WRITE,
            WRONG,
            Call("write_file", {"path": "notes.txt", "content": "minus\n"}),
            LOOK,
            Finish(summary="It subtracts.", artifacts=["calc.py"]),
        )
    },
)


async def three_runs(fabric: Fabric) -> list[str]:
    """Return two runs that did the same, and one that went another way."""
    prompts = ("write it", "write it", "write it [[script=wrong]]")
    return [(await fabric("run", prompt, "--json")).json["_meta"]["run_id"] for prompt in prompts]


async def test_a_person_sees_where_two_runs_part(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        right, again, wrong = await three_runs(fabric)
        same = await fabric("compare", right, again)
        shown = await fabric("compare", right[:12], wrong[:12])
        stat = await fabric("compare", right, wrong, "--stat")
        full = await fabric("compare", right, wrong, "--full")
        value = await fabric("compare", right, wrong, "--json")
    assert (same.code, same.err) == (0, "")
    assert "All 3 turns are the same." in same.out
    assert "Files: 1 file changed by both, all the same." in same.out
    assert shown.code == 1
    assert "They part at turn 2 of 5." in shown.out
    lines = shown.out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("= ", "≠ "))] == ["=", "≠", "≠", "=", "≠"]
    assert any(line.startswith("  B called  write_file") and "a - b" in line for line in lines)
    assert "-    return a + b" in lines
    assert "+    return a - b" in lines
    assert any(line.split() == ["only", "in", "B", "+1", "-0", "notes.txt"] for line in lines)
    assert "They part" not in stat.out
    assert "@@" not in stat.out
    assert "2 paths differ, 0 the same." in stat.out
    assert full.out.count("\n= ") >= 2
    told = json.loads(value.out)
    assert (told["same"], told["parts_at"], told["a"]["run_id"], told["b"]["turns"]) == (False, 1, right, 5)
    differs = [pair["differs"] for pair in told["pairs"]]
    assert differs == [[], ["only"], ["only"], [], ["called"]]


async def test_a_server_compares_as_a_folder_does(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        right, _, wrong = await three_runs(fabric)
        here = await fabric("compare", right, wrong, "--json")
        async with serving(fabric) as server:
            ours = Fabric(tmp_path / "ours", {}, server=server.url, environment={"FABRIC_TOKEN": server.token})
            there = await ours("compare", right, wrong, "--json")
            none = await ours("compare", right, "nothing")
    assert there.json == here.json
    assert none.code == 2
    assert "nothing" in none.err


async def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        first = (await fabric("run", "write it", "--json")).json["_meta"]["run_id"]
        itself = await fabric("compare", first, first)
        none = await fabric("compare", first, "00000000")
        one = await fabric("compare", first)
    assert itself.code == 0
    assert (none.code, one.code) == (2, 2)
    assert "RUN_B" in one.err
