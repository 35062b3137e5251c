"""Settings that are changed on the page: over the files, below the environment."""

import json
import stat
from pathlib import Path

import pytest

from agent_fabric.config.loader import read_config
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.stored import stored_file
from integration.http.served import served


def store(folder: Path, **settings: object) -> None:
    stored_file(folder).write_text(json.dumps(settings))


@pytest.mark.proves("C05")
def test_what_is_stored_counts_more_than_files_and_less_than_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"chat": {"max_turns": 7}, "budget": {"max_steps": 9}}')
    store(tmp_path, chat={"max_turns": 8})
    loaded = read_config({}, fabric_folder=tmp_path)
    assert (loaded.config.chat.max_turns, loaded.config.budget.max_steps) == (8, 9)
    assert loaded.origins["chat.max_turns"] == "stored"
    loaded = read_config({"FABRIC_CHAT__MAX_TURNS": "10"}, fabric_folder=tmp_path)
    assert loaded.config.chat.max_turns == 10
    assert loaded.origins["chat.max_turns"] == "env FABRIC_CHAT__MAX_TURNS"
    chosen = tmp_path / "other.json"
    chosen.write_text('{"chat": {"max_turns": 3}}')
    loaded = read_config({"FABRIC_CONFIG_PATH": str(chosen)}, fabric_folder=tmp_path)
    assert loaded.config.chat.max_turns == 8
    store(tmp_path, chat={"max_turns": 51})
    with pytest.raises(ConfigProblem, match="max_turns"):
        read_config({}, fabric_folder=tmp_path)
    store(tmp_path, policy={"profile": "open"})
    with pytest.raises(ConfigProblem, match="cannot be changed on the page"):
        read_config({}, fabric_folder=tmp_path)


@pytest.mark.slow
@pytest.mark.proves("C05")
async def test_admins_change_settings_and_the_record_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        listed = {each["path"]: each for each in (await server.client.get("/api/v1/settings")).json()["settings"]}
        assert listed["chat.max_turns"]["value"] == 15
        assert listed["identity.visibility"]["choices"] == ["private", "team"]
        assert listed["chat.max_turns"]["about"]
        changed = await server.client.patch("/api/v1/settings", json={"values": {"chat.max_turns": 20}})
        assert changed.status_code == 200, changed.text
        now = {each["path"]: each for each in changed.json()["settings"]}["chat.max_turns"]
        assert (now["value"], now["running"], now["stored"], now["origin"]) == (20, 15, True, "stored")
        file = stored_file(tmp_path / ".fabric")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for wrong in ({"chat.max_turns": 51}, {"policy.profile": "open"}, {"chat.max_turns": "many"}):
            refused = await server.client.patch("/api/v1/settings", json={"values": wrong})
            assert refused.status_code == 422, refused.text
        assert json.loads(file.read_text()) == {"chat": {"max_turns": 20}}
        acts = (await server.client.get("/api/v1/audit/acts")).json()["acts"]
        assert (acts[0]["act"], acts[0]["about"], acts[0]["detail"]) == ("setting_changed", "chat.max_turns", "20")
        back = await server.client.patch("/api/v1/settings", json={"values": {"chat.max_turns": None}})
        assert {each["path"]: each for each in back.json()["settings"]}["chat.max_turns"]["value"] == 15
