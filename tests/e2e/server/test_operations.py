"""A server as its operators see it: each line about a run can be tied to it, and backups are made while it works."""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.scripted_model import Call, Hang, Script, ScriptedModel, Status
from e2e.fabric_process import Fabric, settings
from e2e.server_process import in_background, serving
from integration.http.served import DONE, SCRIPT, task

LIBRARY = logging.getLogger("a.library")
TALK = Call("talk", {})
FINISH = Call("finish_task", {"summary": "all done"})
CHATTY = {"specialists": {"chatty": {"description": "Talks.", "builder": "e2e.server.test_operations:chatty_pack"}}}


def chatty_pack(workspace: str, network_allowed: bool) -> BaseSpecialistPack:
    """Build a pack whose tool tells Python's `logging` something, as libraries do: here, and on a thread."""

    async def talk() -> Mapping[str, Any]:
        LIBRARY.warning("from a coroutine")
        return {}

    def talk_on_a_thread() -> Mapping[str, Any]:
        LIBRARY.warning("from a thread")
        return {}

    return BaseSpecialistPack(
        system_prompt="Talk.",
        tools=[
            (make_tool_def("talk", "Talk.", {}), tool_from(talk)),
            (make_tool_def("shout", "Shout.", {}), tool_from(talk_on_a_thread)),
        ],
        finish=make_finish_tool_def({"summary": {"type": "string"}}),
    )


@pytest.mark.proves("A33-110", "AF-149")
async def test_every_line_of_a_run_carries_its_id_and_that_of_the_request(tmp_path: Path) -> None:
    turns = (TALK, Status(503, retry_after=0), Call("shout", {}), FINISH)
    async with ScriptedModel(Script(turns=turns, named={"hang": (TALK, Hang(times=1), FINISH)})) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, log={"level": "debug"}, **CHATTY))
        async with serving(fabric) as server:
            runs = {}
            for name in ("first", "second"):
                answer = await server.client.post(
                    "/run", json={"prompt": "talk", "pack": "chatty"}, headers={"X-Request-Id": name}
                )
                assert answer.json().get("summary") == "all done", answer.text
                runs[answer.json()["_meta"]["run_id"]] = name
            for number in range(20):
                assert (await server.client.get(f"/made/up/{number}")).status_code == 404
            counted = (await server.client.get("/metrics")).text
            assert 'fabric_http_requests_total{method="POST",route="/run",status="200"} 2.0' in counted
            assert 'fabric_http_requests_total{method="-",route="none",status="404"} 20.0' in counted
            await in_background(server, prompt="[[script=hang]]", pack="chatty")
            await model.wait_for_requests(9, timeout_s=30)
            ended = await server.stop()
        about = [line for line in map(json.loads, ended.err.splitlines()) if line["logger"] in {"runs", "a.library"}]
        assert {line.get("run_id") is not None for line in about} == {True}
        assert "llm_error" in {line["event"] for line in about}
        for run_id, request_id in runs.items():
            lines = [line for line in about if line["run_id"] == run_id]
            assert {line.get("request_id") for line in lines} == {request_id}
            assert [line["event"] for line in lines if line["logger"] == "a.library"] == [
                "from a coroutine",
                "from a thread",
            ]
            assert {"run_created", "run_complete"} <= {line["event"] for line in lines}
        others = [line for line in map(json.loads, ended.err.splitlines()) if line not in about]
        assert [line for line in others if line["logger"] != "http" and line.get("run_id") in runs] == []

        (left,) = {line["run_id"] for line in about} - runs.keys()
        async with serving(fabric) as server:
            await server.until_settled()
            ended = await server.stop()
        again = [line for line in map(json.loads, ended.err.splitlines()) if line["logger"] in {"runs", "a.library"}]
        assert {line.get("run_id") for line in again} == {left}, (
            "a run that is taken up is no request's, but has its id"
        )


@pytest.mark.proves("AF-134")
async def test_a_serving_folder_is_backed_up_and_restored_elsewhere_by_the_command_line(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path / "one", settings(model.base_url))
        async with serving(fabric) as server:
            await server.client.post("/run", json=task())
            await in_background(server, **task("long"))
            made = await fabric("db", "backup", str(tmp_path), "--json")
            assert made.code == 0, made.err
            path = made.json["path"]
            assert any(name.endswith("audit.key") for name in made.json["not_included"])
            status = await fabric("db", "status", "--check", "--json")
            assert (status.json["served"], status.json["damage"]) == (True, [])
            there = replace(fabric, server=server.url, environment={"FABRIC_TOKEN": server.token})
            remote = await there("db", "status", "--json")
            assert remote.json.get("path") == status.json["path"], remote
            assert Path((await there("db", "backup", "--json")).json["path"]).parent == fabric.root / "backups"
            assert (await there("db", "backup", "somewhere")).code == 2
            held = await fabric("db", "restore", path, "--force", "--json")
            assert (held.code, held.json["error"]["code"]) == (1, "run_held")
            await server.until_settled()
            await server.stop()

        other = Fabric(tmp_path / "two", settings(model.base_url), home=tmp_path / "one")
        other.folder.mkdir()
        done = await other("db", "restore", path)
        assert done.code == 0, done.err
        verified = await other("audit", "verify", "--json")
        assert verified.json["holds"] is True
        assert (await other("logs", "list", "--json")).code == 0
        assert (await other("run", "do it")).code == 0, "its own backup need not be trusted again"

        stranger = Fabric(tmp_path / "three", settings(model.base_url))
        stranger.folder.mkdir()
        done = await stranger("db", "restore", path)
        assert "fabric config trust" in done.err
        assert (await stranger("run", "do it")).code == 2
        assert (await stranger("config", "trust")).code == 0
        assert (await stranger("run", "do it")).code == 0
        mixed = await stranger("audit", "verify", "--json")
        assert mixed.json["unknown_key"] > 0, "without the key, old entries cannot be checked"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("db", "backup", ""), 2),
        (("db", "backup", "none/such/file"), 2),
        (("db", "restore", "none.tar.gz", "--force"), 2),
        (("db", "restore", "/dev/null", "--force"), 2),
        (("db", "backup"), 2),
        (("--server", "http://127.0.0.1:1", "db", "restore", "x"), 2),
    ],
)
async def test_wrong_usage_is_explained(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    async with ScriptedModel(Script(turns=(DONE,))) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        assert (await fabric("config", "show")).code == 0
        (fabric.root).mkdir(exist_ok=True)
        (fabric.root / "fabric.db").touch()
        ended = await fabric(*arguments)
        assert (ended.code, ended.out) == (code, "")
        assert "error:" in ended.err
