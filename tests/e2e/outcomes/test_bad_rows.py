"""One row that cannot be read does not keep lists and logs from showing the rest; the exit code tells."""

import json
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving
from integration.http.served import SCRIPT

DAMAGE = {
    "not JSON": b"\xff\xfe not json",
    "nothing": b"",
    "another type": b'["a list"]',
    "nested too deeply": b"[" * 100_000,
    "a missing text": b'{"prompt": {"$blob": "' + b"ab" * 32 + b'", "chars": 9}}',
    "no hash": b'{"prompt": {"$blob": "zz", "chars": 9}}',
    "sealed": b'{"$sealed":"AAAA"}',
}


def damage(fabric: Fabric, payload: bytes, kind: str) -> int:
    connection = apsw.Connection(str(fabric.root / "fabric.db"))
    connection.execute("UPDATE events SET payload = ? WHERE run = 1 AND kind = ?", (payload, kind))
    count = connection.changes()
    connection.close()
    return count


@pytest.mark.parametrize("name", sorted(set(DAMAGE) - {"another type", "sealed"}))
async def test_the_rest_is_shown(tmp_path: Path, name: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        for _ in range(2):
            assert (await fabric("run", "do it")).code == 0
        listed = await fabric("logs", "list", "--json")
        bad, good = listed.json["runs"][1]["run_id"], listed.json["runs"][0]["run_id"]
        whole = (await fabric("logs", "show", bad, "--jsonl")).out.splitlines()
        assert damage(fabric, DAMAGE[name], "llm_request") >= 1
        transcript = await fabric("logs", "show", bad)
        assert transcript.code == 1
        assert "unreadable  llm_request: " in transcript.out
        shown = await fabric("logs", "show", bad, "--jsonl")
        lines = [json.loads(line) for line in shown.out.splitlines()]
        assert shown.code == 1
        assert "cannot be read" in shown.err
        assert len(lines) == len(whole)
        unreadable = [line for line in lines if "unreadable" in line]
        assert {line["kind"] for line in unreadable} == {"llm_request"}
        assert [json.dumps(line) for line in lines if "unreadable" not in line] == [
            json.dumps(line) for line in map(json.loads, whole) if line["kind"] != "llm_request"
        ]
        assert (await fabric("logs", "show", bad, "--json")).code == 1
        assert (await fabric("logs", "show", good)).code == 0
        calls = await fabric("audit", "list", "--json")
        assert calls.code == 1
        assert {call["run_id"] for call in json.loads(calls.out) if call["kind"] == "call"} >= {good, bad}
        assert (await fabric("logs", "list")).code == 0, "what a run was about can still be told"

        assert damage(fabric, DAMAGE[name], "run_created") == 1
        listed = await fabric("logs", "list", "--json")
        assert listed.code == 1
        assert [bool(run.get("unreadable")) for run in listed.json["runs"]] == [False, True]
        async with serving(fabric) as server:
            runs = await server.client.get("/runs")
            assert [bool(run["unreadable"]) for run in runs.json()["runs"]] == [False, True]
            events = await server.client.get(f"/runs/{bad}/events")
            assert [("unreadable" in line) for line in events.json()["events"]].count(True) == 1 + len(unreadable)
            there = replace(fabric, server=server.url, environment={"FABRIC_TOKEN": server.token})
            remote = await there("logs", "show", bad, "--jsonl")
            assert remote.code == 1
            assert len(remote.out.splitlines()) == len(whole)
            assert (await there("logs", "list")).code == 1


@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_run_fails_no_command_in_an_unclear_way(tmp_path: Path, name: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        assert (await fabric("run", "do it")).code == 0
        assert damage(fabric, DAMAGE[name], "run_created") == 1
        for command in (["logs", "list"], ["logs", "search", "it"], ["audit", "list"], ["audit", "verify"]):
            ended = await fabric(*command)
            assert ended.code in {0, 1}, (command, ended)
            assert "Traceback" not in ended.err
