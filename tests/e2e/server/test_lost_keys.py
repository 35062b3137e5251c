"""Keys that are lost or forgotten: the doctor tells of them, and nothing is forgotten before it is named."""

import json
import os
from pathlib import Path

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.interfaces.views.examination import extras_needed
from agent_fabric.testing.scripted_model import Call, Finish, ScriptedModel
from e2e.fabric_process import Ended, Fabric, settings
from e2e.server.test_secrets import given
from e2e.server_process import serving

LOOK = Call("list_files", {"path": "."})
DONE = Finish(summary="done", artifacts=[], next_steps=[], notes="")
SECRET = "sk-8f3a-very-secret-0123456789"


def data_folder(fabric: Fabric) -> Path:
    return (fabric.home or fabric.folder) / ".local" / "share" / "agent-fabric"


def finding(diagnosis: Ended, about: str) -> dict[str, str]:
    (found,) = [each for each in diagnosis.json["findings"] if each["about"] == about]
    return dict(found)


@pytest.mark.proves("DU-5")
async def test_the_doctor_reports_a_lost_key_here_and_at_a_server(tmp_path: Path) -> None:
    async with ScriptedModel([LOOK, DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        assert (await fabric("run", "do it", "--encrypt", "--json")).code == 0
        await given(fabric, SECRET, "secrets", "set", "TOKEN", "--stdin")
        well = finding(await fabric("doctor", "--json"), "encryption")
        assert (well["level"], "key generation" in well["text"]) == ("ok", True)
        (data_folder(fabric) / "encryption.keys").rename(tmp_path / "kept.keys")
        async with serving(fabric) as server:
            there = (await server.client.get("/api/v1/doctor")).json()["findings"]
        here = finding(await fabric("doctor", "--json"), "encryption")
        assert not (data_folder(fabric) / "encryption.keys").exists(), "it only looks"
        (tmp_path / "kept.keys").rename(data_folder(fabric) / "encryption.keys")
        assert finding(await fabric("doctor", "--json"), "encryption") == well
    assert here["level"] == "warn"
    assert here["text"].startswith("1 of 1 encrypted run and 1 of 1 secret cannot be opened: the key is not in ")
    assert here in there


@pytest.mark.proves("DU-5")
async def test_old_keys_are_forgotten_only_after_all_that_is_known_to_need_them_was_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ScriptedModel(lambda _body, count: LOOK if count % 2 else DONE) as model:
        first = Fabric(tmp_path / "first", settings(model.base_url), home=home)
        second = Fabric(tmp_path / "second", settings(model.base_url), home=home)
        for fabric in (first, second):
            assert (await fabric("run", "do it", "--encrypt", "--json")).code in {0, 1}
        backup = tmp_path / "backup.tar.gz"
        assert (await first("db", "backup", str(backup))).code == 0
    assert (await first("secrets", "rotate", "--json")).json["runs"] == 1
    keys = data_folder(first) / "encryption.keys"
    os.utime(keys, (0, 0))  # else it is too soon after the change
    asked = await first("secrets", "rotate", "--drop-old")
    assert (asked.code, "--yes" in asked.err) == (2, True)
    assert f"folder  {second.root}: 1 encrypted run\n" in asked.err
    assert f"backup  {backup}: made " in asked.err
    assert "; 1 encrypted run\n" in asked.err
    assert "Not known: " in asked.err
    assert str(first.root) not in asked.err, "that one is sealed with the new key"
    assert len(keys.read_text().splitlines()) == 2, "nothing was forgotten"

    dropped = await first("secrets", "rotate", "--drop-old", "--yes", "--json")
    assert dropped.code == 0, dropped.err
    assert [(lost["kind"], lost["path"], lost["state"], lost["runs"]) for lost in dropped.json["lost"]] == [
        ("folder", str(second.root), "sealed", 1),
        ("backup", str(backup), "sealed", 1),
    ]
    assert len(keys.read_text().splitlines()) == 1
    uses = json.loads((data_folder(first) / "key-uses.json").read_text())["uses"]
    assert [use["path"] for use in uses] == [str(first.root)]
    assert "1 of 1 encrypted run cannot be opened" in finding(await second("doctor", "--json"), "encryption")["text"]
    assert finding(await first("doctor", "--json"), "encryption")["level"] == "ok"


@pytest.mark.proves("DU-5")
async def test_a_folder_that_was_sealed_anew_or_is_gone_is_told_apart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    places = [Fabric(tmp_path / name, settings("http://127.0.0.1:9/v1"), home=home) for name in ("a", "b", "c")]
    for place in places:
        place.folder.mkdir()
        place.environment = {"HOME": str(home)}
        kept = await given(place, SECRET, "secrets", "set", "TOKEN", "--stdin")
        assert kept.code == 0, kept.err
    a, b, c = places
    await a("secrets", "rotate")
    await b("secrets", "rotate")
    c.folder.rename(tmp_path / "moved")
    asked = await a("secrets", "rotate", "--drop-old")
    assert f"folder  {c.root}: " in asked.err
    assert "it no longer exists, or was moved" in asked.err
    assert str(b.root) not in asked.err, "its own rotation made the newest key"


@pytest.mark.proves("DU-5")
def test_an_extra_is_needed_by_the_tool_servers_that_are_configured() -> None:
    servers = [{"name": "docs", "command": ["docs-server"]}]
    config = read_config({}, overrides={"specialists": {"engineering": {"mcp_servers": servers}}}).config
    needs = extras_needed(config, traces=False)
    assert needs.keys() == {"mcp"}
    assert needs["mcp"].text == "the tool servers docs; without it, tasks of engineering fail"
    assert needs["mcp"].by_all is False
    assert extras_needed(read_config({}).config, traces=False) == {}
