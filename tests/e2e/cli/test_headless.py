"""Headless use: a stream of events as lines of JSON, and reviews whose exit code tells."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Finish, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving

pytestmark = pytest.mark.proves("CP-14")

BUG = {"file": "calc.py", "line": 2, "severity": "high", "problem": "It rounds down.", "patch": "+    return a / b"}


def answering(request: dict[str, Any], _: int) -> Answer:
    """Say hi, or review: what rounds down is wrong."""
    asked = str(request["messages"][1]["content"])
    told = sum(message["role"] == "tool" for message in request["messages"])
    if "Review this change." not in asked:
        return Finish(summary="Said hi.") if told else Call("list_files", {"path": "."})
    if "+    return a // b" not in asked:
        return Finish(summary="It is right.", findings=[])
    return Finish(summary="It divides.", findings=[BUG]) if told else Call("read_file", {"path": "calc.py"})


def lines_of(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


async def test_a_stream_has_a_line_for_each_event_and_one_result_here_and_at_a_server(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        done = await fabric("run", "say hi", "--pack", "engineering", "--output", "stream-json")
        assert (done.code, done.err) == (0, "")
        *events, result = lines_of(done.out)
        assert [each["seq"] for each in events] == list(range(len(events)))
        assert [events[0]["kind"], events[-1]["kind"], result["kind"]] == ["run_created", "run_complete", "result"]
        assert result["payload"]["summary"] == "Said hi."  # type: ignore[index]
        again = await fabric("resume", "--last", "--output", "stream-json")
        assert [each["kind"] for each in lines_of(again.out)] == ["result"]
        refused = await fabric("run", "say hi", "--pack", "nobody", "--output", "stream-json")
        assert refused.code == 2
        assert lines_of(refused.out)[0]["payload"]["error"]["code"] == "pack_unknown"  # type: ignore[index]
        whole = await fabric("run", "say hi", "--pack", "engineering", "--output", "json")
        assert json.loads(whole.out)["summary"] == "Said hi."
        async with serving(fabric) as server:
            there = Fabric(
                tmp_path / "there", settings(model.base_url), {"FABRIC_TOKEN": server.token}, server=server.url
            )
            far = await there("run", "say hi", "--pack", "engineering", "--output", "stream-json")
            assert far.code == 0, far.err
            assert [each["kind"] for each in lines_of(far.out)] == [each["kind"] for each in lines_of(done.out)]


def repository(folder: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    git("init")
    (folder / "calc.py").write_text("def divide(a, b):\n    return a / b\n")
    git("add", "calc.py")
    git("commit", "-m", "calc")
    git("checkout", "-b", "work")
    (folder / "calc.py").write_text("def divide(a, b):\n    return a // b\n")
    git("commit", "-am", "wrong")


async def test_a_review_shows_findings_and_its_exit_code_says_whether_one_is_serious(tmp_path: Path) -> None:
    async with ScriptedModel(answering) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        nowhere = await fabric("review")
        assert (nowhere.code, "Not a git repository" in nowhere.err) == (2, True), nowhere.err
        repository(fabric.folder)
        nothing = await fabric("review")
        assert (nothing.code, nothing.out) == (0, ""), nothing.err
        assert "Nothing has changed." in nothing.err
        unknown = await fabric("review", "--base", "nowhere")
        assert unknown.code == 2
        assert "git could not tell" in unknown.err
        endless = await fabric("review", "/dev/zero")
        assert (endless.code, "at most" in endless.err) == (2, True), endless.err
        wrong = await fabric("review", "--base", "main")
        assert wrong.code == 6, wrong.err
        assert (
            "calc.py:2: high: It rounds down.\n    +    return a / b\n\nIt divides.\n1 finding, 1 serious" in wrong.out
        )
        as_json = await fabric("review", "--base", "main", "--json")
        assert (as_json.code, as_json.json["serious"]) == (6, 1)
        assert as_json.json["findings"] == [BUG | {"in_diff": True}]
        (fabric.folder / "calc.py").write_text("def divide(a, b):\n    return a / b\n")
        right = await fabric("review", "--base", "HEAD")
        assert (right.code, "0 findings, 0 serious" in right.out) == (0, True), right.err
        log = (await fabric("logs", "show", "--last", "--json")).out
        assert '"network_allowed": false' in log or '"network_allowed":false' in log
        async with serving(fabric) as server:
            there = Fabric(
                tmp_path / "there", settings(model.base_url), {"FABRIC_TOKEN": server.token}, server=server.url
            )
            there.folder.mkdir()
            (there.folder / "change.diff").write_text("--- a/calc.py\n+++ b/calc.py\n@@ -2 +2 @@\n+    return a // b\n")
            far = await there("review", "change.diff", "--output", "stream-json")
            assert far.code == 6, far.err
            assert lines_of(far.out)[-1]["payload"]["serious"] == 1  # type: ignore[index]
