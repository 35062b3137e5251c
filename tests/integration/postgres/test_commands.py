"""The command line on PostgreSQL: tables, status, checks, moving a folder along, and keys that all processes share."""

import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_fabric.config.store_address import URL_VARIABLE
from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.fabric_process import Fabric, settings
from integration.http.served import SCRIPT
from postgres_cluster import Cluster

PASSWORD = "geheim-4711"
KEYS = {
    "AUDIT_KEY": "ab" * 32,
    "ENCRYPTION_KEY": "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=",
    "JWT_SECRET": "kP9z-7Tq4vXw2Lm8Rb5Ny1Hs6Dc3Fg0J",
    "API_KEY_PEPPER": "Zt5Qm8Wn2Xk7Vb4Lp9Rs1Hd6Fc3Gj0Ay",
}


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with ScriptedModel(SCRIPT) as model:
        yield model


def command(model: ScriptedModel, folder: Path, **environment: str) -> Fabric:
    folder.mkdir(exist_ok=True)
    return Fabric(folder, settings(model.base_url), environment)


@pytest.mark.proves("SC-1")
async def test_a_run_is_in_the_database_and_nowhere_else(
    model: ScriptedModel, tmp_path: Path, store_cluster: Cluster, store_database: str
) -> None:
    fabric = command(model, tmp_path)
    done = await fabric("run", "paint the shed", "--json")
    assert done.code == 0, done.err
    run_id = done.json["_meta"]["run_id"]
    assert store_cluster.execute("SELECT run_id, status FROM runs", store_database) == [(run_id, "completed")]
    assert not (tmp_path / ".fabric/fabric.db").exists()
    listed = await fabric("logs", "list", "--json")
    assert [run["run_id"] for run in json.loads(listed.out)["runs"]] == [run_id]
    assert "paint the shed" in (await fabric("logs", "show", run_id)).out
    assert run_id in (await fabric("logs", "search", "shed")).out
    verified = await fabric("audit", "verify", "--json")
    assert (verified.code, verified.json["damage"]) == (0, [])
    status = await fabric("db", "status", "--json")
    assert status.json["runs"]["completed"] == 1
    assert status.json["path"].startswith("PostgreSQL at 127.0.0.1:")


@pytest.mark.proves("SC-1")
async def test_two_folders_share_runs(model: ScriptedModel, tmp_path: Path) -> None:
    here, there = command(model, tmp_path / "a", **KEYS), command(model, tmp_path / "b", **KEYS)
    done = await here("run", "paint the shed", "--json")
    assert done.json["_meta"]["run_id"] in (await there("logs", "list")).out


@pytest.mark.proves("SC-1")
async def test_without_tables_everything_says_what_to_do(
    model: ScriptedModel, tmp_path: Path, store_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store_cluster.create_database().replace("fabric@", f"fabric:{PASSWORD}@")
    monkeypatch.setenv(URL_VARIABLE, url)
    fabric = command(model, tmp_path)
    for arguments in (("logs", "list"), ("run", "do it"), ("db", "status"), ("serve", "--port", "0")):
        refused = await fabric(*arguments)
        assert refused.code == 1, arguments
        assert "has no tables yet" in refused.err
        assert "fabric db migrate" in refused.err
    findings = {each["about"]: each for each in (await fabric("doctor", "--json")).json["findings"]}
    assert (findings["store"]["level"], findings["store"]["fix"]) == ("fail", "fabric db migrate")
    first = await fabric("db", "migrate", "--json")
    again = await fabric("db", "migrate", "--json")
    assert (first.json["before"], again.json["before"]) == (0, first.json["after"])
    checked = await fabric("doctor", "--json")
    told = "\n".join(each["text"] for each in checked.json["findings"] if each["about"] == "store")
    assert "PostgreSQL 1" in told
    assert "fsync is off" in told
    shown = await fabric("config", "show")
    assert "fabric:***@" in shown.out
    assert PASSWORD not in "".join((shown.out, checked.out, first.out, refused.err))


async def test_an_unreachable_server_is_named_without_its_password(
    model: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, f"postgresql://fabric:{PASSWORD}@127.0.0.1:1/fabric")
    fabric = command(model, tmp_path)
    for arguments in (("logs", "list"), ("run", "do it"), ("db", "migrate"), ("doctor",)):
        refused = await fabric(*arguments)
        assert refused.code == 1
        assert "PostgreSQL at 127.0.0.1:1, database fabric cannot be reached" in refused.err + refused.out
        assert PASSWORD not in refused.err + refused.out


async def test_backups_are_made_by_the_programs_of_the_server(model: ScriptedModel, tmp_path: Path) -> None:
    fabric = command(model, tmp_path)
    refused = await fabric("db", "backup", str(tmp_path))
    assert refused.code == 2
    assert "pg_dump --format=custom" in refused.err
    assert "pg_restore" in refused.err
    assert not list(tmp_path.glob("*.tar.gz"))


@pytest.mark.proves("SC-1")
async def test_a_folder_moves_into_the_database(
    model: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_database: str
) -> None:
    monkeypatch.delenv(URL_VARIABLE)
    before = command(model, tmp_path)
    run_ids = {(await before("run", f"task {number}", "--json")).json["_meta"]["run_id"] for number in range(2)}
    nowhere = await before("db", "copy", "--from", str(before.root))
    assert (nowhere.code, "store.url" in nowhere.err) == (2, True)
    monkeypatch.setenv(URL_VARIABLE, store_database)
    fabric = command(model, tmp_path)
    copied = await fabric("db", "copy", "--from", str(fabric.root), "--json")
    assert copied.code == 0, copied.err
    assert (copied.json["runs"], copied.json["damage"]) == (2, [])
    assert "files of runs" in copied.json["not_copied"]
    listed = (await fabric("logs", "list")).out
    assert all(run_id in listed for run_id in run_ids)
    assert (await fabric("audit", "verify")).code == 0
    assert "2 runs and 26 events into PostgreSQL" in (await fabric("audit", "list")).out
    again = await fabric("db", "copy", "--from", str(fabric.root))
    assert (again.code, "is not empty" in again.err) == (2, True)


@pytest.mark.proves("SC-3")
async def test_a_process_with_other_keys_is_refused_and_told_which(model: ScriptedModel, tmp_path: Path) -> None:
    here = command(model, tmp_path / "a", **KEYS)
    assert (await here("run", "do it")).code == 0
    assert (await here("keys", "create", "ci")).code == 0
    assert (await here("token", "--user", "nobody")).code != 0
    others = {
        "AUDIT_KEY": ("cd" * 32, ("run", "do it"), "The key of the audit chain is not that"),
        "ENCRYPTION_KEY": (
            "HMfYQRnVYzrHLeKHBiV2qNqrpNz7mwqGHPlzPFVmHHk=",
            ("run", "do it"),
            "The encryption key is not that",
        ),
        "API_KEY_PEPPER": (KEYS["JWT_SECRET"], ("keys", "create", "cd"), "The pepper of API keys is not that"),
    }
    for name, (value, arguments, words) in others.items():
        other = command(model, tmp_path / name, **(KEYS | {name: value}))
        refused = await other(*arguments)
        assert refused.code == 2, name
        assert words in refused.err
        assert name in refused.err
        assert value not in refused.err
    other = command(model, tmp_path / "several", **(KEYS | {name: value for name, (value, _, _) in others.items()}))
    states = await other("db", "keys", "--json")
    assert states.code == 1
    assert {each["name"] for each in json.loads(states.out) if each["database"] not in {None, each["here"]}} == {
        *("audit", "encryption", "pepper"),
    }
    assert (await other("db", "keys", "--accept")).code == 0
    assert (await other("run", "do it")).code == 0
    assert "are not those" in (await here("serve", "--port", "0")).err


@pytest.mark.proves("SC-3")
async def test_a_server_with_another_signing_key_refuses_to_start(model: ScriptedModel, tmp_path: Path) -> None:
    here = command(model, tmp_path / "a", **KEYS)
    assert (await here("users", "add", "ada", "--role", "admin", "--password-stdin")).code != 99
    assert (await here("db", "keys", "--accept")).code == 0
    other = command(model, tmp_path / "b", **(KEYS | {"JWT_SECRET": KEYS["API_KEY_PEPPER"]}))
    refused = await other("serve", "--port", "0")
    assert refused.code == 2
    assert "The key that signs tokens is not that of the other processes" in refused.err


async def test_the_driver_is_an_extra(model: ScriptedModel, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "psycopg.py").write_text("raise ImportError('no module', name='psycopg')\n")
    path = os.pathsep.join((str(hidden), *sys.path))
    fabric = Fabric(tmp_path, settings(model.base_url), {"PYTHONPATH": path}, fresh=True)
    refused = await fabric("logs", "list")
    assert refused.code == 1
    assert "optional part that is not installed" in refused.err
    assert '[cluster]"' in refused.err


async def test_a_foreign_folder_does_not_choose_the_database(
    model: ScriptedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_database: str
) -> None:
    monkeypatch.delenv(URL_VARIABLE)
    fabric = Fabric(tmp_path, {}, {"FABRIC_CONFIG_PATH": ""})
    fabric.root.mkdir()
    (fabric.root / "config.json").write_text(json.dumps({"store": {"url": store_database}}))
    refused = await fabric("logs", "list")
    assert refused.code != 0
    assert "nothing in it is obeyed" in refused.err
    assert (await fabric("config", "trust")).code == 0
    assert (await fabric("logs", "list")).code == 0
