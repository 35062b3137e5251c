"""What a server tells those who run it, in its log and by the doctor."""

import json
from pathlib import Path
from typing import Any

import httpx2

from e2e.fabric_process import Fabric, settings, until
from e2e.server_process import serving

GITHUB = {"scheme": "github", "secret": "env:NOT_SET_ANYWHERE", "workflow": "no-such-workflow"}


def lines(log: Path, event: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line for line in found if line["event"] == event]


async def test_each_request_says_who_asked(tmp_path: Path) -> None:
    log = tmp_path / "operations.log"
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1", log={"file": str(log)}))
    key = (await fabric("keys", "create", "ci", "--scope", "runs:read", "--json")).json["key"]
    async with serving(fabric) as server:
        await server.client.get("/runs")
        async with httpx2.AsyncClient(base_url=server.url, headers={"X-API-Key": key}, timeout=60) as other:
            assert (await other.get("/api/v1/runs")).status_code == 200
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as stranger:
            assert (await stranger.get("/runs")).status_code == 401
            assert (await stranger.get("/openapi.json")).status_code == 200
        await until(lambda: len(lines(log, "http_request")) == 4, "four lines")
    here, by_key, *nobody = lines(log, "http_request")
    assert here["user"].startswith("local:")
    assert by_key["user"] == "key:ci"
    assert not any("user" in line for line in nobody)


async def test_what_settings_count_on_and_is_not_there_is_told_at_the_start_and_by_the_doctor(tmp_path: Path) -> None:
    log = tmp_path / "operations.log"
    alert = {
        "name": "busy",
        "when": "runs_queued > 5",
        "notify": ["https://alerts.invalid/"],
        "secret": "file:NOT_KEPT",
    }
    configured = settings("http://127.0.0.1:9/v1", log={"file": str(log)}, webhooks={"code": GITHUB}, alerts=[alert])
    fabric = Fabric(tmp_path, configured)
    async with serving(fabric) as server:
        await until(lambda: len(lines(log, "setting_unmet")) == 3, "three warnings")
        there = (await server.client.get("/api/v1/doctor")).json()
    here = (await fabric("doctor", "--json")).json
    told = [(line["level"], line["about"], line["problem"]) for line in lines(log, "setting_unmet")]
    assert told[:2] == [
        ("warning", "webhooks", "`webhooks.code.secret`: env:NOT_SET_ANYWHERE is not set"),
        ("warning", "alerts", "`alerts.busy.secret`: file:NOT_KEPT is not set"),
    ]
    assert told[2][2].startswith("`webhooks.code.workflow`: ")
    for diagnosis in (there, here):
        found = [each for each in diagnosis["findings"] if each["about"] in {"webhooks", "alerts"}]
        assert [(each["level"], each["text"]) for each in found] == [("warn", text) for _, _, text in told]
        assert all(each["fix"] for each in found)


async def test_who_is_missing_nothing_hears_nothing(tmp_path: Path) -> None:
    configured = settings("http://127.0.0.1:9/v1", webhooks={"code": {"scheme": "github", "secret": "env:IS_SET"}})
    findings = (await Fabric(tmp_path, configured, {"IS_SET": "a secret of some length"})("doctor", "--json")).json
    assert not [each for each in findings["findings"] if each["about"] == "webhooks"]
