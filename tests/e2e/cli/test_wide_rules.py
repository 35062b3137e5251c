"""Rules that allow without an end: `fabric policy show` and `fabric doctor` say so, here and at a server."""

from pathlib import Path

import pytest

from e2e.fabric_process import Fabric, settings
from integration.http.served import served

pytestmark = pytest.mark.proves("WB-8")

RULES = {
    "policy": {
        "rules": [
            {"id": "anything-goes", "verdict": "allow", "commands": ["*"]},
            {"id": "plans", "verdict": "allow", "commands": ["terraform plan"]},
        ]
    }
}


async def test_a_rule_that_allows_every_command_is_warned_of(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1", **RULES))
    shown = (await fabric("policy", "show")).out
    assert shown.count("warning: allows every command without a question") == 1
    rules = {rule["id"]: rule["warning"] for rule in (await fabric("policy", "show", "--json")).json["rules"]}
    assert [name for name, warning in rules.items() if warning] == ["anything-goes"]
    examined = await fabric("doctor", "--json")
    (found,) = [each for each in examined.json["findings"] if each["about"] == "policy"]
    assert (found["level"], "anything-goes allows every command" in found["text"]) == ("warn", True)


async def test_a_server_warns_of_it_as_well(tmp_path: Path) -> None:
    async with served(tmp_path, also=RULES) as server:
        told = (await server.client.get("/api/v1/doctor")).json()["findings"]
        assert any("anything-goes allows every command" in each["text"] for each in told)
        shown = (await server.client.get("/api/v1/policy")).json()["rules"]
        assert [rule["id"] for rule in shown if rule["warning"]] == ["anything-goes"]
