"""A package that somebody else wrote: built, installed beside agent-fabric and used, with no change to our code."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Hang, Script, ScriptedModel, Turn
from e2e.fabric_process import PATIENCE_S, Fabric, read_lines, settings
from installed_packages import built_and_installed, importable, laid_out

EXAMPLE = Path(__file__).parents[3] / "examples/csv-analyst"
SALES = "region,amount\nnorth,10\nsouth,7\nsouth,5\n"
SAVE = Call("write_file", {"path": "sales.csv", "content": SALES})
PROFILE = Call("profile_csv", {"path": "sales.csv"})
TOTAL = Call("total_by", {"path": "sales.csv", "group": "region", "value": "amount"})
DONE = Finish(summary="The south sold most.", figures=[{"name": "south", "value": 12}])
SCRIPT = Script(
    turns=(SAVE, PROFILE, TOTAL, DONE),
    named={
        "hang": (SAVE, Turn(TOTAL, faults=(Hang(),)), DONE),
        "look": (Call("list_files", {"path": "."}), Finish(summary="Nothing.")),
        "engineer": (SAVE, PROFILE, Finish(summary="Profiled."), Finish(summary="Profiled.")),
    },
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built and installed once."""
    return built_and_installed(EXAMPLE, tmp_path_factory.mktemp("example"))


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(SCRIPT) as model:
        yield model


def fabric_with(tmp_path: Path, model: ScriptedModel, *folders: Path, **configured: Any) -> Fabric:
    """Return the command where these packages are installed."""
    environment = {"PYTHONPATH": importable(*folders)}
    return Fabric(tmp_path / "project", settings(model.base_url, **configured), environment, home=tmp_path / "home")


def offered(model: ScriptedModel) -> list[str]:
    """Return the tools that the model was shown last."""
    return [tool["function"]["name"] for tool in model.requests[-1].body["tools"]]


@pytest.mark.slow
def test_the_tests_of_the_example_pass_where_it_is_installed(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", str(EXAMPLE)],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": importable(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.proves("AF-106", "AF-110")
async def test_the_pack_of_an_installed_package_does_a_task(
    tmp_path: Path, model: ScriptedModel, installed: Path
) -> None:
    fabric = fabric_with(tmp_path, model, installed)
    ended = await fabric("run", "--pack", "data_analyst", "Which region sold most?", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["figures"] == [{"name": "south", "value": 12}]
    assert offered(model) == ["read_file", "write_file", "list_files", "profile_csv", "total_by", "finish_task"]
    (run_dir,) = fabric.run_dirs()
    assert (run_dir / "workspace/sales.csv").read_text() == SALES
    results = [line["payload"]["result"] for line in read_lines(run_dir) if line["kind"] == "tool_result"]
    assert results[1]["columns"]["amount"] == {
        "missing": 0,
        "distinct": 3,
        "smallest": 5.0,
        "largest": 10.0,
        "mean": 22 / 3,
    }
    assert results[2] == {"totals": {"south": 12.0, "north": 10.0}}


@pytest.mark.slow
@pytest.mark.proves("AF-106")
async def test_it_is_chosen_by_its_keywords_which_a_file_can_change(
    tmp_path: Path, model: ScriptedModel, installed: Path
) -> None:
    fabric = fabric_with(tmp_path, model, installed)
    ended = await fabric(
        "run", "--explain-routing", "Look at the columns of this CSV: which region sold most?", "--json"
    )
    assert ended.json["_meta"]["specialist_ids"] == ["data_analyst"], ended.err
    assert ended.json["_meta"]["routing_method"] == "keywords"
    changed = fabric_with(tmp_path, model, installed, specialists={"data_analyst": {"keywords": ["zebra"]}})
    ended = await changed("run", "--explain-routing", "What does a zebra eat?", "--json")
    assert ended.json["_meta"]["specialist_ids"] == ["data_analyst"], ended.err


@pytest.mark.slow
async def test_its_run_survives_a_kill(tmp_path: Path, model: ScriptedModel, installed: Path) -> None:
    fabric = fabric_with(tmp_path, model, installed)
    started = await fabric.start("run", "--pack", "data_analyst", "[[script=hang]]")
    await model.wait_for_requests(2, timeout_s=PATIENCE_S)
    started.process.send_signal(signal.SIGKILL)
    await started.ended()
    ended = await fabric("resume", "--last", "--json")
    assert ended.code == 0, ended.err
    (run_dir,) = fabric.run_dirs()
    called = [line["payload"]["tool"] for line in read_lines(run_dir) if line["kind"] == "tool_call"]
    assert called == ["write_file", "total_by", "finish_task"]


@pytest.mark.slow
@pytest.mark.proves("C05")
async def test_the_configuration_tells_which_package_a_setting_comes_from(
    tmp_path: Path, model: ScriptedModel, installed: Path
) -> None:
    fabric = fabric_with(tmp_path, model, installed, specialists={"data_analyst": {"keywords": ["turnover"]}})
    shown = (await fabric("config", "show", "--origin", "--json")).json
    builder = {"value": "csv_analyst.pack:build", "origin": "package csv-analyst 0.1.0"}
    assert shown["specialists.data_analyst.builder"] == builder
    assert shown["specialists.data_analyst.keywords"]["value"] == ["turnover"]
    assert shown["specialists.data_analyst.keywords"]["origin"].startswith("file ")


@pytest.mark.slow
@pytest.mark.proves("AF-111", "C13", "A33-083", "A33-143")
async def test_its_tool_is_added_to_another_pack_by_name(tmp_path: Path, model: ScriptedModel, installed: Path) -> None:
    fabric = fabric_with(tmp_path, model, installed, specialists={"engineering": {"tools": ["profile_csv"]}})
    ended = await fabric("run", "--pack", "engineering", "[[script=engineer]]", "--json")
    assert ended.code == 0, ended.err
    assert "profile_csv" in offered(model)
    (run_dir,) = fabric.run_dirs()
    results = [line["payload"]["result"] for line in read_lines(run_dir) if line["kind"] == "tool_result"]
    assert results[1]["rows"] == 3


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        (["no_such_tool"], "no installed package has it; there are: profile_csv, total_by"),
        (["profile_csv", "csv_analyst.tools:profile_csv"], "more than one tool named 'profile_csv'"),
        (["csv_analyst.tools:MAX_BYTES"], "int is neither a function nor a tool"),
    ],
)
@pytest.mark.slow
async def test_a_tool_that_cannot_be_added_is_explained(
    tmp_path: Path, model: ScriptedModel, installed: Path, tools: list[str], reason: str
) -> None:
    fabric = fabric_with(tmp_path, model, installed, specialists={"engineering": {"tools": tools}})
    ended = await fabric("run", "--pack", "engineering", "[[script=look]]", "--json")
    assert ended.code == 1
    assert ended.json["error"]["code"] == "pack_unknown"
    assert reason in ended.json["error"]["message"]
    assert ended.json["error"]["hint"]


@pytest.mark.slow
async def test_a_broken_package_harms_only_those_who_ask_for_it(tmp_path: Path, model: ScriptedModel) -> None:
    entry = "[agent_fabric.packs]\nbroken = bad_module:SETTINGS\n"
    bad = laid_out(tmp_path, "bad", entry, "print('hello')\nimport no_such_module_at_all\n")
    fabric = fabric_with(tmp_path, model, bad, specialists={"broken": {"keywords": ["mine"]}})
    reason = "The pack 'broken' of package bad 1.0 is left out: ModuleNotFoundError: No module named"

    other = await fabric("run", "--pack", "engineering", "[[script=look]]", "--json")
    assert other.code == 0
    assert other.json["summary"] == "Nothing."
    assert other.err.count(f"warning: {reason}") == 1

    asked = await fabric("run", "--pack", "broken", "Do it.", "--json")
    assert asked.code == 2
    assert asked.json["error"]["code"] == "pack_unknown"
    assert asked.json["error"]["message"].startswith(reason)
    assert len(fabric.run_dirs()) == 1, "no run is made for a pack that cannot be had"

    shown = await fabric("config", "show")
    assert shown.code == 0
    assert "broken" not in shown.json["specialists"]
    assert f"warning: {reason}" in shown.err


@pytest.mark.slow
async def test_a_package_cannot_take_a_name_that_is_taken(tmp_path: Path, model: ScriptedModel) -> None:
    module = "SETTINGS = {'description': 'Takes over.', 'builder': 'nowhere:build'}"
    shadow = laid_out(tmp_path, "shadow", "[agent_fabric.packs]\nengineering = shadow_module:SETTINGS\n", module)
    twins = [
        laid_out(tmp_path, name, f"[agent_fabric.packs]\ntwin = {name}_module:SETTINGS\n", module)
        for name in ("castor", "pollux")
    ]
    fabric = fabric_with(tmp_path, model, shadow, *twins)
    ended = await fabric("run", "--pack", "engineering", "[[script=look]]", "--json")
    assert ended.code == 0
    assert (
        "warning: The pack 'engineering' of package shadow 1.0 is left out: a pack of this name is built in"
        in ended.err
    )
    asked = await fabric("run", "--pack", "twin", "Do it.", "--json")
    assert asked.code == 2
    assert "of package castor 1.0 and pollux 1.0 is left out: more than one" in asked.json["error"]["message"]
