"""`fabric logs search` and its route: what ran and what was said, phrases, filters; nothing that is hidden."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Calls, Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving

pytestmark = pytest.mark.proves("DU-8")

SECRET = "tr0ub4dor-and-three-words"
TRY = Call("shell", {"command": "python3 -c 'print(41 + 1)'"})
WRITE = Calls((Call("write_file", {"path": "otters.txt", "content": "a river"}),), text="I write about mustelids.")
SCRIPT = Script(
    turns=(WRITE, TRY, Finish(summary="wrote it")),
    named={"secret": (Call("shell", {"command": f"echo {SECRET}"}), TRY, Finish(summary="said it"))},
)


async def test_runs_are_found_by_what_they_did_and_said(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        run_id = (await fabric("run", "write", "--json")).json["_meta"]["run_id"]
        sealed = (await fabric("run", "write", "--encrypt", "--json")).json["_meta"]["run_id"]

        async def found(*words: str) -> list[str]:
            ended = await fabric("logs", "search", *words, "--json")
            assert ended.code == 0, ended.err
            return [run["run_id"] for run in ended.json["runs"]]

        for words in (["otters.txt"], ["mustelids"], ["print(41"], ["about", "mustelids"], ['"write about mustelids"']):
            assert await found(*words) == [run_id], words
        assert await found("wrote", "it") == [sealed, run_id], "of an encrypted run, task and summary"
        assert await found('"mustelids about"') == []
        ended = await fabric("logs", "search", "mustelids", "--json")
        assert ended.json["runs"][0]["matched"] == "I write about mustelids."
        assert await found("mustelids", "--status", "failed") == []
        assert await found("mustelids", "--status", "completed", "--owner", "local", "--since", "1h") == [run_id]
        assert await found("mustelids", "--until", "1h") == []
        assert await found("mustelids", "--since", "2020-01-01", "--until", "2099-01-01T00:00") == [run_id]
        wrong = await fabric("logs", "search", "mustelids", "--since", "yesterday")
        assert (wrong.code, "is not a time" in wrong.err) == (2, True)


@pytest.mark.proves("DU-10")
async def test_what_gc_would_remove_is_listed_as_runs_are(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        assert (await fabric("run", "write about otters")).code == 0
        (listed,) = (await fabric("logs", "list")).out.splitlines()
        assert "write about otters" in listed
        shown = await fabric("gc", "--older-than", "0s", "--dry-run")
        assert shown.out == f"{listed}\n1 run would be removed.\n"


async def test_a_secret_is_not_in_the_index(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        configured = settings(model.base_url, model={"api_key": "env:MY_KEY"})
        fabric = Fabric(tmp_path, configured, environment={"MY_KEY": SECRET})
        assert (await fabric("run", "[[script=secret]]")).code == 0
        assert (await fabric("logs", "search", "said", "--json")).json["runs"] != []
        assert (await fabric("logs", "search", SECRET, "--json")).json["runs"] == []
        assert SECRET.encode() not in (fabric.root / "fabric.db").read_bytes()


async def test_at_a_server_only_what_one_may_see_is_found(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        home = Fabric(tmp_path / "server", settings(model.base_url))
        async with serving(home) as server:
            ours = Fabric(tmp_path / "ours", {}, server=server.url, environment={"FABRIC_TOKEN": server.token})
            key = (await ours("keys", "create", "ci", "--scope", "runs", "--json")).json["key"]
            theirs = replace(ours, environment={"FABRIC_TOKEN": key})
            hidden = (await ours("run", "write", "--visibility", "private", "--json")).json["_meta"]["run_id"]
            shared = (await theirs("run", "write", "--json")).json["_meta"]["run_id"]

            async def found(who: Fabric, *words: str) -> list[str]:
                return [run["run_id"] for run in (await who("logs", "search", *words, "--json")).json["runs"]]

            assert await found(ours, "mustelids") == [shared, hidden]
            assert await found(theirs, "mustelids") == [shared]
            assert await found(ours, "mustelids", "--owner", "ci") == [shared]
            query = {"q": '"about mustelids"', "owner": "local", "status": "completed", "since": "2020-01-01"}
            answer = await server.client.get("/runs/matching", params=query)
            assert [run["run_id"] for run in answer.json()["runs"]] == [hidden]
            refused = await server.client.get("/runs/matching", params={"q": "x", "status": "odd"})
            assert refused.status_code == 422
