"""Several specialists over the command line: chosen, in turn, at once, killed in the middle."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.testing.scripted_answers import turn_of
from agent_fabric.testing.scripted_model import Answer, Call, Finish, ScriptedModel, Status
from e2e.fabric_process import Fabric, read_lines, settings

STEPS = 6


def second_pack(workspace: str, network_allowed: bool) -> BaseSpecialistPack:
    """Build a second engineer."""
    pack = build_engineering_pack(UnconfinedSandbox(Path(workspace), RunId("second")))
    return BaseSpecialistPack(
        system_prompt="You are the second.",
        tools=[(spec, pack._tools[spec.name]) for spec in pack.tool_definitions],
        finish=pack.finish,
    )


SECOND = {
    "description": "Another engineer.",
    "keywords": ["second opinion"],
    "builder": "e2e.agents.test_task_force:second_pack",
}


def who_asks(request: dict[str, Any]) -> str:
    return "second" if "You are the second." in request["messages"][0]["content"] else "engineering"


def working(witness: Path) -> Any:
    """A model that lets each specialist leave traces outside, then finish."""

    def answer(request: dict[str, Any], attempt: int) -> Answer:
        who, step = who_asks(request), turn_of(request)
        if step < STEPS:
            return Call("shell", {"command": f'echo "{who} {step}" >> {witness} && python3 -c "pass"'})
        if step == STEPS:
            return Call("write_file", {"path": f"{who}.md", "content": who})
        if step == STEPS + 1:
            return Call("shell", {"command": f"python3 -c \"print(open('{who}.md').read())\""})
        return Finish(summary=f"{who} is done", artifacts=[f"{who}.md"])

    return answer


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.mark.proves("AF-051", "AF-052", "AF-136", "AF-137", "AF-145", "C43")
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
async def test_two_specialists_share_a_task(tmp_path: Path, witness: Path, mode: str) -> None:
    async with ScriptedModel(working(witness)) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, specialists={"second": SECOND}))
        ended = await fabric("run", "go", "--pack", "second,engineering", "--task-force-mode", mode, "--json")
    assert ended.code == 0, ended.err
    order = ["second", "engineering"] if mode == "sequential" else ["engineering", "second"]
    assert list(ended.json["specialists"]) == order
    assert ended.json["_meta"]["specialist_ids"] == order
    assert sorted(ended.json["artifacts"]) == ["engineering.md", "second.md"]
    lines = read_lines(Path(ended.json["_meta"]["run_dir"]))
    kinds = Counter(line["kind"] for line in lines)
    assert kinds["pack_start"] == 2
    assert kinds["task_force_parallel"] == (mode == "parallel")
    assert lines[-1]["payload"]["task_force_mode"] == mode


async def test_one_failing_does_not_lose_the_others_work(tmp_path: Path, witness: Path) -> None:
    good = working(witness)

    def answer(request: dict[str, Any], attempt: int) -> Answer:
        return Status(400) if who_asks(request) == "second" else good(request, attempt)

    async with ScriptedModel(answer) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, specialists={"second": SECOND}))
        ended = await fabric("run", "go", "--pack", "second,engineering", "--task-force-mode", "parallel", "--json")
    assert ended.code == 1
    assert ended.json["error"]["code"] == "task_force_incomplete"
    assert ended.json["specialists"]["engineering"]["summary"] == "engineering is done"
    assert ended.json["failed_specialists"]["second"]["code"] == "model_refused"
    assert (Path(ended.json["_meta"]["workspace"]) / "engineering.md").exists()


@pytest.mark.slow
async def test_a_parallel_task_force_killed_again_and_again_goes_on_lane_by_lane(tmp_path: Path, witness: Path) -> None:
    """Finished steps of any lane are never repeated; a step that was cut off is told to the model, not done again."""
    chance = random.Random(4)
    async with ScriptedModel(working(witness)) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, specialists={"second": SECOND}))
        run = ("run", "go", "--pack", "second,engineering", "--task-force-mode", "parallel", "--json")
        kills = 0
        for _ in range(60):
            known = [path.name for path in fabric.run_dirs()]
            before = written(fabric) if known else 0
            started = await fabric.start(*(("resume", known[0], "--json") if known else run))
            enough = before + chance.randrange(2, 12)
            while started.process.returncode is None and written(fabric) < enough:
                await asyncio.sleep(0.002)
            await asyncio.sleep(chance.uniform(0, 0.03))
            if started.process.returncode is None and kills < 12:
                started.process.kill()
                kills += 1
                await started.process.communicate()
                continue
            ended = await started.ended()
            break
    assert kills >= 5
    assert ended.code == 0, ended.err
    assert list(ended.json["specialists"]) == ["engineering", "second"]
    seen = Counter(witness.read_text().splitlines())
    assert {line: count for line, count in seen.items() if count > 1} == {}, "a step ran twice"
    lines = read_lines(fabric.run_dirs()[0])
    assert Counter(line["payload"]["specialist_id"] for line in lines if line["kind"] == "pack_start") == {
        "engineering": 1,
        "second": 1,
    }


def written(fabric: Fabric) -> int:
    """Count the events that are durable now; the log file shows them a moment later."""
    try:
        store = apsw.Connection(str(fabric.root / "fabric.db"), flags=apsw.SQLITE_OPEN_READONLY)
        ((count,),) = store.execute("SELECT count(*) FROM events").fetchall()
    except apsw.Error:
        return 0
    return int(str(count))


@pytest.mark.proves("AF-042", "AF-043", "AF-135", "C04")
async def test_routing_is_explained(tmp_path: Path) -> None:
    def answer(request: dict[str, Any], attempt: int) -> Answer:
        tools = [tool["function"]["name"] for tool in request.get("tools", [])]
        if tools == ["choose_specialists"]:
            return Call("choose_specialists", {"specialist_ids": ["engineering"]})
        return Call("list_files", {}) if turn_of(request) == 0 else Finish(summary="seen")

    async with ScriptedModel(answer) as model:
        configured = settings(model.base_url)
        configured["models"]["fast"] = configured["models"]["quality"]
        fabric = Fabric(tmp_path, configured)
        clear = await fabric("run", "build a small API", "--explain-routing", "--json")
        asked = await fabric("run", "literature on refactoring", "--explain-routing", "--json")
        nothing = await fabric("run", "What is 17 * 23?", "--explain-routing", "--json")
    assert 'chosen by keywords: engineering, because the task says "api" and "build"' in clear.err
    assert 'chosen by score: assistant, because the task says "17 * 23"' in " ".join(nothing.err.split())
    assert nothing.json["_meta"]["routing_method"] == "score"
    unasked = [line for line in read_lines(Path(nothing.json["_meta"]["run_dir"])) if line["kind"] == "llm_request"]
    assert {line["payload"]["purpose"] for line in unasked} == {"turn"}
    assert clear.json["_meta"]["routing_method"] == "keywords"
    assert "chosen by model: engineering" in asked.err
    assert asked.json["_meta"]["routing_method"] == "model"
    requests = [line for line in read_lines(Path(asked.json["_meta"]["run_dir"])) if line["kind"] == "llm_request"]
    assert requests[0]["payload"]["purpose"] == "routing"


@pytest.mark.proves("DU-2")
async def test_with_a_project_folder_engineering_is_first_and_no_model_is_asked(tmp_path: Path) -> None:
    def answer(request: dict[str, Any], attempt: int) -> Answer:
        tools = [tool["function"]["name"] for tool in request.get("tools", [])]
        if tools == ["choose_specialists"]:
            return Call("choose_specialists", {"specialist_ids": ["research"]})
        return Call("list_files", {}) if turn_of(request) == 0 else Finish(summary="seen")

    project = tmp_path / "project"
    project.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (project / "calc.py").write_text("print(1)\n")
    async with ScriptedModel(answer) as model:
        configured = settings(model.base_url)
        configured["models"]["fast"] = configured["models"]["quality"]
        fabric = Fabric(project, configured, {"HOME": str(home)})
        ended = await fabric("run", "Summarise calc.py", "--here", "--explain-routing", "--json")
        web = await fabric("run", "research the web for date parsers", "--here", "--explain-routing", "--json")
    assert ended.json["_meta"]["specialist_ids"] == ["engineering"]
    assert ended.json["_meta"]["routing_method"] == "project"
    assert "chosen for the project folder: engineering" in ended.err
    assert "chosen by keywords: research" in web.err
    (recruited,) = [
        line["payload"] for line in read_lines(Path(ended.json["_meta"]["run_dir"])) if line["kind"] == "recruitment"
    ]
    assert recruited["routing_method"] == "project"
    requests = [line for line in read_lines(Path(ended.json["_meta"]["run_dir"])) if line["kind"] == "llm_request"]
    assert {line["payload"]["purpose"] for line in requests} == {"turn"}


@pytest.mark.proves("AF-171")
async def test_a_named_pack_is_honoured_without_a_model(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1", model={"connect_timeout_s": 1}))
    ended = await fabric("run", "systematic review of X", "--pack", "research", "--no-ensure", "--json")
    assert ended.code == 1
    assert ended.json["error"]["code"] == "model_unreachable"
    assert ended.json["_meta"]["specialist_ids"] == ["research"]
    lines = read_lines(Path(ended.json["_meta"]["run_dir"]))
    assert "llm_request" in [line["kind"] for line in lines]
    assert Path(ended.json["_meta"]["workspace"]).is_dir()


async def test_an_unknown_pack_among_several_is_named(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    ended = await fabric("run", "x", "--pack", "engineering,wizard", "--json")
    assert ended.code == 2
    assert "wizard" in ended.json["error"]["message"]
    assert fabric.run_dirs() == []
