"""A real server whose clock is set back by an hour while it runs."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving
from services import need, need_program

BASE = "/api/v1/schedules"
PATIENCE_S = 60.0
WORKFLOW = {
    "name": "greet",
    "version": "1.0.0",
    "steps": [{"id": "greet", "action": "transform", "inputs": {"said": "hello"}}],
}


@pytest.mark.slow
@pytest.mark.proves("WB-13")
async def test_an_interval_goes_on_in_a_server_whose_clock_is_set_back(tmp_path: Path) -> None:
    need_program("faketime", "faketime")
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    need(library, "needs libfaketime")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    faked = {"FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    environment = {"LD_PRELOAD": str(library), **faked}
    (tmp_path / "workflow-definitions").mkdir()
    (tmp_path / "workflow-definitions" / "greet.json").write_text(json.dumps(WORKFLOW))
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"), environment=environment, fresh=True)
    async with serving(fabric) as hub:

        async def fired(count: int) -> list[dict[str, Any]]:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    answer = await hub.client.get(f"{BASE}/beat/firings", params={"limit": 1_000})
                    found: list[dict[str, Any]] = [each for each in answer.json()["firings"] if each["run_id"]]
                    if len(found) >= count:
                        return found
                    await asyncio.sleep(0.1)

        made = await hub.client.post(
            BASE, json={"name": "beat", "every": "2s", "target_kind": "workflow", "target": "greet"}
        )
        assert made.status_code == 201, made.text
        before = await fired(2)
        clock.write_text("-1h")
        after = await fired(len(before) + 4)
        newest = max(each["fired_at"] for each in before)
        again = [each for each in after if each["fired_at"] < newest - 3_000]
        why = (await hub.client.get(f"{BASE}/beat/why", params={"at": again[0]["due_at"]})).json()
        alerts = (await hub.client.get("/api/v1/alerts")).json()["alerts"]
    assert len(again) >= 2
    assert len({each["run_id"] for each in after}) == len(after)
    assert why["answer"] == "fired"
    assert "The clock was set back by 36" in why["text"], why
    assert [each["status"] for each in alerts if each["name"] == "clock-set-back"] == ["firing"]
