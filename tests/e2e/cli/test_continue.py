"""`fabric run --continue`: a new run that goes on with the conversation and the workspace of one that has ended."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.client import FabricClient
from agent_fabric.testing.scripted_model import Call, Finish, Hang, Script, ScriptedModel
from e2e.fabric_process import Fabric, Started, read_lines, settings
from e2e.server_process import serving

pytestmark = pytest.mark.proves("DU-4")

TRY = Call("shell", {"command": "python3 -c 'print(1)'"})
SCRIPT = Script(
    turns=(Call("write_file", {"path": "a.txt", "content": "one\n"}), TRY, Finish(summary="wrote a.txt")),
    named={
        "read": (Call("read_file", {"path": "a.txt"}), Finish(summary="read it")),
        "push": (Call("shell", {"command": "make deploy"}), Finish(summary="pushed")),
        "hang": (Hang(times=99),),
    },
)


def meta(ended: Any) -> dict[str, Any]:
    assert ended.code == 0, ended.err + ended.out
    value: dict[str, Any] = ended.json["_meta"]
    return value


def created(fabric: Fabric, run_id: str) -> dict[str, Any]:
    payload: dict[str, Any] = read_lines(fabric.root / "runs" / run_id)[0]["payload"]
    return payload


async def test_a_follow_up_knows_what_was_said_and_works_in_the_same_workspace(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        first = meta(await fabric("run", "write it", "--json", "--no-network-allowed"))
        second = meta(await fabric("run", "--continue", "[[script=read]] and now?", "--json"))
        asked = model.requests[-1].body["messages"][1]["content"]
        listed = await fabric("logs", "list")
        shown = await fabric("logs", "show", "--last")
        files = await fabric("files", "--last", "a.txt")
        verified = await fabric("verify", "--last")
        named = meta(await fabric("run", "--continue", first["run_id"][:8], "write [[script=read]]", "--json"))
        third = meta(await fabric("run", "--continue", second["run_id"], "more [[script=read]]", "--json"))
    assert second["run_id"] != first["run_id"]
    assert second["workspace"] == named["workspace"] == third["workspace"] == first["workspace"]
    assert (first["continues"], second["continues"], third["continues"]) == (None, first["run_id"], second["run_id"])
    assert asked.startswith("[[script=read]] and now?\n\n--- Earlier in this conversation")
    assert "|   write it\n| assistant:\n|   wrote a.txt" in asked
    newest, *_ = listed.out.splitlines()
    assert f"(continues {first['run_id'][:8]}) [[script=read]] and now?" in newest
    assert "Earlier" not in newest
    assert f"continues run {first['run_id']}\n" in shown.out
    assert (files.out, verified.code) == ("one\n", 0)
    began = created(fabric, second["run_id"])
    assert (began["continues"], began["conversation"]) == (first["run_id"], first["run_id"])
    assert (began["project"], began["network_allowed"]) == (False, False)
    assert created(fabric, third["run_id"])["conversation"] == first["run_id"]


async def test_a_follow_up_of_a_run_in_a_project_works_there_and_can_be_taken_back_alone(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with ScriptedModel([*SCRIPT.turns]) as model:
        env = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
        fabric = Fabric(tmp_path / "fabric", settings(model.base_url), home=project, environment=env)
        meta(await fabric("run", "write it", "--here", "--json"))
        (project / "a.txt").write_text("mine\n")
        second = await fabric("run", "--continue", "again")
        assert second.code == 0, second.err
        assert "changed: 1 file, +1 -1\n  modified  +1 -1  a.txt\n" in second.out
        assert (project / "a.txt").read_text() == "one\n"
        undone = await fabric("undo", "--last")
        assert (undone.code, (project / "a.txt").read_text()) == (0, "mine\n")
        run_id = (await fabric("logs", "list", "--json")).json["runs"][0]["run_id"]
        assert created(fabric, run_id)["project"] is True
        refused = await fabric("run", "--continue", "--here", "again")
        assert (refused.code, "Leave out --here" in refused.err) == (2, True)


async def test_what_a_run_had_read_follows_into_what_follows_it_up(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with ScriptedModel([*SCRIPT.turns]) as model:
        env = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
        fabric = Fabric(tmp_path / "fabric", settings(model.base_url), home=project, environment=env)
        meta(await fabric("run", "write it", "--here", "--untrusted", "--json"))
        second = meta(await fabric("run", "--continue", "again", "--json"))
    quotes = created(fabric, second["run_id"])["quotes"]
    assert quotes["untrusted"] == ["files of the workspace"]
    assert quotes["private"] == ["files of the workspace"]
    assert quotes["own_words"] == "again\nwrite it"


async def test_private_stays_private_and_encrypted_stays_encrypted(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        first = meta(await fabric("run", "write it", "--encrypt", "--visibility", "private", "--json"))
        second = meta(await fabric("run", "--continue", "again", "--json"))
        listed = (await fabric("logs", "list", "--json")).json["runs"]
        assert {run["visibility"] for run in listed} == {"private"}
        assert not (fabric.root / "runs" / second["run_id"] / "runlog.jsonl").exists()
        meta(await fabric("run", "--continue", first["run_id"], "again", "--visibility", "team", "--json"))
        shared = (await fabric("logs", "list", "--json", "--limit", "1")).json["runs"]
        assert [run["visibility"] for run in shared] == ["team"], "its owner may say otherwise"


@pytest.mark.sqlite
async def test_a_run_that_has_not_ended_cannot_be_followed_up(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        assert (await fabric("run", "push [[script=push]]", "--json")).code == 3
        waiting = await fabric("run", "--continue", "again", "--json")
        started: Started = await fabric.start("run", "[[script=hang]]")
        await model.wait_for_requests(2, timeout_s=30)
        running = await fabric("run", "--continue", "--last", "again", "--json")
        started.process.kill()
        await started.process.communicate()
        interrupted = await fabric("run", "--continue", "again", "--json")
    for ended, hint in (
        (waiting, "fabric approvals list --run"),
        (running, "--follow"),
        (interrupted, "fabric resume"),
    ):
        assert ended.code == 1
        assert ended.json["error"]["code"] == "run_unsettled"
        assert hint in ended.json["error"]["hint"]


async def test_one_run_at_a_time_works_in_a_workspace(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        first = meta(await fabric("run", "write it", "--json"))["run_id"]
        asked = len(model.requests)
        started: Started = await fabric.start("run", "--continue", first, "[[script=hang]]")
        await model.wait_for_requests(asked + 1, timeout_s=30)
        refused = await fabric("run", "--continue", first, "me too", "--json")
        started.process.kill()
        await started.process.communicate()
        assert (refused.code, refused.json["error"]["code"]) == (1, "folder_held")
        meta(await fabric("run", "--continue", first, "now [[script=read]]", "--json"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--last", "task"), "together with --continue"),
        (("one", "two"), "Quote the prompt"),
        (("--continue", "--last", "one", "two"), "Quote the prompt"),
        (("--continue", "a", "b", "c"), "Quote the prompt"),
        (("--continue", "again"), "There are no runs"),
    ],
)
async def test_wrong_words_are_refused(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    refused = await fabric("run", *arguments)
    assert refused.code == 2
    assert said in refused.err


async def test_at_a_server_only_who_sees_a_run_can_follow_it_up(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        home = Fabric(tmp_path / "server", settings(model.base_url))
        async with serving(home) as server:
            ours = Fabric(tmp_path / "ours", {}, server=server.url, environment={"FABRIC_TOKEN": server.token})
            key = (await ours("keys", "create", "ci", "--scope", "runs", "--json")).json["key"]
            theirs = replace(ours, environment={"FABRIC_TOKEN": key})
            hidden = meta(await ours("run", "mine", "--visibility", "private", "--json"))["run_id"]
            refused = await theirs("run", "--continue", hidden, "tell me", "--json")
            assert (refused.code, refused.json["error"]["code"]) == (2, "run_not_found")
            shared = meta(await ours("run", "ours", "--json"))["run_id"]
            followed = meta(await theirs("run", "--continue", shared, "go on [[script=read]]", "--json"))
            assert followed["continues"] == shared
            again = meta(await theirs("run", "--continue", "more [[script=read]]", "--json"))
            assert again["continues"] == followed["run_id"], "one's own newest run"
            began = created(home, followed["run_id"])
            assert began["owner"] == "key:ci"
            assert began["quotes"]["untrusted"] == [f"run {shared} of local"]
            assert began["quotes"]["own_words"] == "go on [[script=read]]"
            async with FabricClient(server.url, key=key) as client:
                done = await client.run("and more [[script=read]]", continues=again["run_id"])
            assert done.continues == again["run_id"]
            answer = await server.client.get(f"/runs/{again['run_id']}")
            assert answer.json()["_meta"]["continues"] == followed["run_id"]


async def test_nobody_else_follows_up_a_run_in_a_project_folder(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    async with ScriptedModel(SCRIPT) as model:
        env = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
        local = Fabric(tmp_path / "fabric", settings(model.base_url), home=project, environment=env)
        first = meta(await local("run", "write it", "--here", "--json"))["run_id"]
        async with serving(local) as server:
            ours = Fabric(tmp_path / "ours", {}, server=server.url, environment={"FABRIC_TOKEN": server.token})
            key = (await ours("keys", "create", "ci", "--scope", "runs", "--json")).json["key"]
            theirs = replace(ours, environment={"FABRIC_TOKEN": key})
            refused = await theirs("run", "--continue", first, "show me", "--json")
            assert (refused.code, refused.json["error"]["code"]) == (1, "forbidden")
            assert meta(await ours("run", "--continue", first, "again", "--json"))["workspace"] == str(project)


async def test_a_run_stays_as_long_as_it_is_followed_up(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        first = meta(await fabric("run", "write it", "--json"))["run_id"]
        second = meta(await fabric("run", "--continue", "again", "--json"))["run_id"]
        removed = [json.loads((await fabric("gc", "--older-than", "0s", "--json")).out)["removed"] for _ in "12"]
        assert removed == [[second], [first]]
