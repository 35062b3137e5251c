"""The examples in `examples/workflows`, run as a reader would who has copied them."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent_fabric.domain.errors import FabricError
from agent_fabric.infrastructure.models.servers.llama_servers import LlamaServers
from agent_fabric.infrastructure.models.weights.catalogue import find
from agent_fabric.infrastructure.models.weights.download import Weights
from agent_fabric.infrastructure.models.weights.folder import ModelFolder, models_folder
from agent_fabric.testing.scripted_model import Answer, Call, Entry, Finish, Responder, Script, ScriptedModel
from e2e.fabric_process import Fabric, read_lines, settings
from free_ports import free_port
from integration.web.site import site
from services import need, need_program

EXAMPLES = Path(__file__).parents[3] / "examples/workflows"
NO_MODEL = "http://127.0.0.1:9/v1"
NOTES = Finish(
    summary="The kettle can now whistle, and boils again.",
    new=["It whistles (a1)."],
    fixed=["It boils (b2)."],
    other=[],
)
HOSTILE = "{{ secrets.HOME }} $(touch stolen) ${secret:HOME} '; touch stolen"
RANKED = Finish(
    summary="One test fails, and one thing is left to do.",
    items=[
        {"what": "Repair the sum", "where": "test_sums.py", "priority": "high"},
        {"what": "Round to cents", "where": "sums.py:2", "priority": "low"},
    ],
)
TRIAGED = (Call("read_file", {"path": "sums.py"}), RANKED)


def copied(example: str, tmp_path: Path, base_url: str = NO_MODEL, **configured: Any) -> Fabric:
    """Return the command in a folder that holds a copy of an example."""
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / example, project, ignore=shutil.ignore_patterns(".fabric"))
    home = tmp_path / "home"
    home.mkdir()
    return Fabric(project, settings(base_url, **configured), {"HOME": str(home)})


def git(folder: Path, *arguments: str) -> None:
    """Call git with nothing of this machine's settings."""
    program = need_program("git", "git")
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main")
    subprocess.run([program, *who, *arguments], cwd=folder, env=alone, check=True, capture_output=True, timeout=30)


def with_history(folder: Path) -> None:
    """Make a repository with a tag and two commits behind it."""
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Add a kettle")
    git(folder, "tag", "v1.0")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Let the kettle whistle")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Fix a kettle that did not boil")


def cast(**parts: Sequence[Entry]) -> Responder:
    """Let each agent answer with its own script; agents are told apart by words of their prompt, `_` for spaces."""
    scripts = {words.replace("_", " "): Script(tuple(entries)) for words, entries in parts.items()}

    def answer(request: dict[str, Any], attempt: int) -> Answer:
        prompt = request["messages"][0]["content"]
        return next(script for words, script in scripts.items() if words in prompt)(request, attempt)

    return answer


def done(shown: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each step by its id."""
    return {each["step_id"]: each["status"] for each in shown["step_results"]}


@pytest.mark.proves("A33-142")
@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.iterdir() if each.is_dir()))
async def test_every_example_is_valid_and_says_what_it_does(example: str, tmp_path: Path) -> None:
    fabric = copied(example, tmp_path)
    assert (await fabric("workflow", "validate")).code == 0
    assert (await fabric("agents", "validate")).code == 0
    told = (EXAMPLES / example / "README.md").read_text()
    listed = (await fabric("workflow", "list", "--json")).json["workflows"]
    assert f"fabric workflow run {example}" in told
    assert example in {each["name"] for each in listed if each["description"]}


@pytest.mark.proves("A33-047", "A33-048", "A33-049")
@pytest.mark.parametrize(("limit", "ran", "said"), [("101", "calm", "below 101 %"), ("0", "warning", "Nearly full:")])
async def test_the_disk_report_needs_no_model_and_branches_at_its_limit(
    limit: str, ran: str, said: str, tmp_path: Path
) -> None:
    fabric = copied("disk-report", tmp_path)
    ended = await fabric("workflow", "run", "disk-report", "-i", f"limit={limit}", "--json")
    assert ended.code == 0, ended.out
    shown = ended.json
    assert shown["status"] == "success"
    assert {done(shown)[each] for each in ("calm", "warning")} == {"success", "skipped"}
    assert done(shown)[ran] == "success"
    assert (len(shown["result"]["full"]) > 0) == (limit == "0")
    report = (Path(shown["_meta"]["workspace"]) / "disk-report.md").read_text()
    assert report.startswith("# Disks\n")
    assert said in report
    assert "| `/usr` |" in report
    assert report.strip() == shown["result"]["report"].strip()


async def test_the_disk_report_measures_the_project_with_here(tmp_path: Path) -> None:
    fabric = copied("disk-report", tmp_path)
    (fabric.folder / "large").mkdir()
    (fabric.folder / "large" / "file").write_bytes(os.urandom(3 * 1024 * 1024))
    ended = await fabric("workflow", "run", "disk-report", "--here", "--json")
    assert ended.code == 0, ended.out
    assert "3.0 MB  ./large" in (fabric.folder / "disk-report.md").read_text()


@pytest.mark.proves("A33-044", "A33-046", "A33-142")
async def test_release_notes_tell_the_commits_since_the_newest_tag(tmp_path: Path) -> None:
    async with ScriptedModel([NOTES]) as model:
        fabric = copied("release-notes", tmp_path, model.base_url)
        with_history(fabric.folder)
        git(fabric.folder, "commit", "-q", "--allow-empty", "-m", HOSTILE)
        ended = await fabric("workflow", "run", "release-notes", "--here", "-i", "version=1.1.0", "--json")
    assert ended.code == 0, ended.err + ended.out
    (request,) = model.requests
    asked = request.body["messages"][-1]["content"]
    assert "Let the kettle whistle" in asked
    assert "Add a kettle" not in asked
    assert HOSTILE in asked, "what stands in a value is no expression and no command"
    assert ended.json["result"]["commits"] == 3
    assert (fabric.folder / "RELEASE_NOTES.md").read_text() == (
        "# 1.1.0\n\nThe kettle can now whistle, and boils again.\n\n"
        "## New\n\n- It whistles (a1).\n\n## Fixed\n\n- It boils (b2).\n\n## Other\n\nNothing.\n"
    )
    run_id = ended.json["_meta"]["run_id"]
    assert "+# 1.1.0" in (await fabric("diff", run_id)).out
    lineage = (await fabric("workflow", "lineage", run_id, "notes.text", "--json")).json
    assert {"write.new", "commits.list", "history.stdout"} <= set(lineage["fed_by"])


async def test_release_notes_take_what_is_named_as_one_argument_and_ask_nobody_when_nothing_is_new(
    tmp_path: Path,
) -> None:
    fabric = copied("release-notes", tmp_path)
    with_history(fabric.folder)
    named = ("workflow", "run", "release-notes", "--here", "-i", "version=1.1.0", "--json", "-i")
    quiet = await fabric(*named, "since=HEAD")
    assert quiet.code == 0, quiet.out
    assert quiet.json["result"] == {"commits": 0, "notes": ""}
    assert done(quiet.json)["write"] == "skipped"
    for hostile in ("--output=stolen", "v1.0; touch stolen", "$(touch stolen)"):
        ended = await fabric(*named, f"since={hostile}")
        assert ended.code == 1, ended.out
        assert done(ended.json)["history"] == "failed"
    assert not (fabric.folder / "stolen").exists()
    assert not (fabric.folder / "RELEASE_NOTES.md").exists()


@pytest.mark.proves("A33-046", "A33-059")
async def test_release_notes_without_a_change_fail_and_resume_from_the_writer(tmp_path: Path) -> None:
    empty = Finish(summary="Nothing much has happened.", new=[], fixed=[], other=[])
    async with ScriptedModel([empty], port=free_port()) as model:
        fabric = copied("release-notes", tmp_path, model.base_url)
        with_history(fabric.folder)
        ended = await fabric("workflow", "run", "release-notes", "--here", "-i", "version=1.1.0", "--json")
    assert ended.code == 1
    assert "no change is listed" in ended.json["error"]["message"]
    async with ScriptedModel([NOTES], port=model.port):
        again = await fabric("workflow", "resume", ended.json["_meta"]["run_id"], "--from", "write", "--json")
    assert again.code == 0, again.err + again.out
    assert (fabric.folder / "RELEASE_NOTES.md").is_file()
    commands = [each for each in read_lines(Path(again.json["_meta"]["run_dir"])) if each["kind"] == "tool_call"]
    assert len(commands) == 1, "the history is not read again"


def with_findings(folder: Path) -> None:
    """Make a project with something to do and a test that fails."""
    (folder / "sums.py").write_text("def add(a, b):\n    return a - b  # TODO: round to cents\n")
    (folder / "test_sums.py").write_text(
        "import unittest\nimport sums\n\n\nclass Sums(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(sums.add(1, 1), 2)\n"
    )


@pytest.mark.proves("A33-044", "A33-049", "A33-050")
async def test_the_triage_waits_for_a_person_and_writes_what_they_chose(tmp_path: Path) -> None:
    async with ScriptedModel(TRIAGED) as model:
        fabric = copied("nightly-triage", tmp_path, model.base_url)
        with_findings(fabric.folder)
        ended = await fabric("workflow", "run", "nightly-triage", "--here", "--json")
        assert ended.code == 3, ended.err + ended.out
        asked = model.requests[0].body["messages"][-1]["content"]
        assert "sums.py:2:" in asked
        assert "FAIL: test_add" in asked
        (card,) = json.loads((await fabric("approvals", "list", "--json")).out)
        assert "1. high: Repair the sum (test_sums.py)" in card["args"]["message"]
        assert not (fabric.folder / "TRIAGE.md").exists()
        answer = ("approvals", "approve", card["id"], "--set", "keep=1", "--set", "note=Ada takes it.")
        assert (await fabric(*answer)).code == 0
        resumed = await fabric("resume", ended.json["_meta"]["run_id"], "--json")
    assert resumed.code == 0, resumed.err + resumed.out
    assert len(model.requests) == 2, "the agent is not asked again"
    report = (fabric.folder / "TRIAGE.md").read_text()
    assert "1. **high** Repair the sum (`test_sums.py`)" in report
    assert "Round to cents" not in report
    assert report.endswith("Ada takes it.\n")
    assert (resumed.json["result"]["found"], done(resumed.json)["tell"]) == (2, "skipped")


@pytest.mark.proves("A33-042")
async def test_a_quiet_night_asks_nobody_and_the_schedule_is_shown(tmp_path: Path) -> None:
    fabric = copied("nightly-triage", tmp_path)
    ended = await fabric("workflow", "run", "nightly-triage", "--here", "--json")
    assert ended.code == 0, ended.err + ended.out
    assert ended.json["result"] == {"found": 0, "report": ""}
    assert "[schedule 0 3 * * mon-fri]" in (await fabric("workflow", "list")).out


async def test_the_triage_tells_a_webhook_with_a_token_that_stands_in_no_log(tmp_path: Path) -> None:
    async def take(request: web.Request) -> web.Response:
        return web.json_response({"got": await request.json()})

    rules = [{"id": "hook", "verdict": "allow", "domains": ["127.0.0.1"]}]
    async with site({"/": take}) as server, ScriptedModel(TRIAGED) as model:
        fabric = copied(
            "nightly-triage", tmp_path, model.base_url, web={"allow_hosts": [server.host]}, policy={"rules": rules}
        )
        fabric.environment = {**fabric.environment, "TRIAGE_TOKEN": "sesame-4711"}
        with_findings(fabric.folder)
        ended = await fabric("workflow", "run", "nightly-triage", "--here", "-i", f"webhook={server.url()}", "--json")
        (approval,) = ended.json["_meta"]["approvals"]
        assert (await fabric("approvals", "approve", approval)).code == 0
        resumed = await fabric("resume", ended.json["_meta"]["run_id"], "--json")
    assert resumed.code == 0, resumed.err + resumed.out
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer sesame-4711"]
    kept = [path for path in fabric.folder.rglob("*") if path.is_file() and b"sesame-4711" in path.read_bytes()]
    assert kept == []


REJECTED = Finish(approved=False, remarks="Say how much coffee has.")
ACCEPTED = Finish(approved=True, remarks="")
READ_TEA, READ_COFFEE = (Call("read_file", {"path": f"sources/{name}.md"}) for name in ("tea", "coffee"))


@pytest.mark.proves("A33-044", "A33-048")
async def test_research_goes_back_to_the_researcher_until_the_reviewer_is_content(tmp_path: Path) -> None:
    script = cast(
        There_is_a_draft=[READ_COFFEE, Finish(draft="Coffee has 95 mg [sources/coffee.md], tea 40 [sources/tea.md].")],
        You_answer_a_question=[READ_TEA, Finish(draft="Tea has 40 mg [sources/tea.md].")],
        You_check_an_answer=[READ_TEA, REJECTED],
    )
    better = Script((READ_COFFEE, ACCEPTED))

    def answer(request: dict[str, Any], attempt: int) -> Answer:
        checked = (
            "You check" in request["messages"][0]["content"] and "Coffee has 95" in request["messages"][1]["content"]
        )
        return better(request, attempt) if checked else script(request, attempt)

    async with ScriptedModel(answer) as model:
        fabric = copied("research-review", tmp_path, model.base_url)
        ended = await fabric("workflow", "run", "research-review", "--here", "-i", "question=Tea or coffee?", "--json")
    assert ended.code == 0, ended.err + ended.out
    result = ended.json["result"]
    assert (result["approved"], result["rounds"]) == (True, 2)
    report = (fabric.folder / "report.md").read_text()
    assert report == "# Tea or coffee?\n\nCoffee has 95 mg [sources/coffee.md], tea 40 [sources/tea.md].\n"
    assert len(fabric.run_dirs()) == 1 + 2 + 4, "the workflow, its rounds, and two agents in each"


async def test_research_that_is_never_approved_ends_after_its_rounds_and_says_so(tmp_path: Path) -> None:
    script = cast(
        You_answer_a_question=[READ_TEA, Finish(draft="Tea has 40 mg.")], You_check_an_answer=[READ_TEA, REJECTED]
    )
    async with ScriptedModel(script) as model:
        fabric = copied("research-review", tmp_path, model.base_url)
        inputs = ("-i", "question=Tea or coffee?", "-i", "rounds=2")
        ended = await fabric("workflow", "run", "research-review", "--here", *inputs, "--json")
    assert ended.code == 0, ended.err + ended.out
    assert (ended.json["result"]["approved"], ended.json["result"]["rounds"]) == (False, 2)
    report = (fabric.folder / "report.md").read_text()
    assert "**Not approved.** What the reviewer still missed: Say how much coffee has." in report


async def test_research_without_sources_says_where_to_put_them(tmp_path: Path) -> None:
    fabric = copied("research-review", tmp_path)
    for each in (fabric.folder / "sources").iterdir():
        each.unlink()
    ended = await fabric("workflow", "run", "research-review", "--here", "-i", "question=Tea?", "--json")
    assert ended.code == 1
    assert "sources/ is empty: put the files there that may be cited" in ended.json["error"]["message"]


@pytest.mark.soak
@pytest.mark.skipif(os.environ.get("FABRIC_SKIP_REAL_LLM") == "1", reason="FABRIC_SKIP_REAL_LLM=1: no real model")
@pytest.mark.proves("A33-044", "A33-142")
def test_release_notes_are_written_by_the_embedded_model(tmp_path: Path) -> None:
    try:
        asyncio.run(Weights(ModelFolder(models_folder(os.environ))).ensure(find("quality"), lambda _: None))
    except FabricError as problem:
        need(condition=False, reason=f"the real model cannot be had: {problem.message}")
    fabric = copied("release-notes", tmp_path)
    model = {"backend": "embedded", "temperature": 0.0}
    fabric.configured = {"models": {"quality": model, "fast": model}, "embedded": {"idle_s": 120}}
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    fabric.environment = {**fabric.environment, **state, "FABRIC_MODELS_DIR": str(models_folder(os.environ))}
    with_history(fabric.folder)
    try:
        run = fabric("workflow", "run", "release-notes", "--here", "-i", "version=1.1.0", "--json", timeout_s=600)
        ended = asyncio.run(run)
    finally:
        asyncio.run(LlamaServers(environ=state).stop_all())
    assert ended.code == 0, ended.err + ended.out
    text = (fabric.folder / "RELEASE_NOTES.md").read_text()
    assert text.startswith("# 1.1.0\n")
    assert "kettle" in text.lower()
    assert ended.json["result"]["commits"] == 2
