"""References to secrets where they are used: from settings through every place to the wire, and out of every log."""

import asyncio
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.records import open_records, open_secrets, owner_here, resealing
from agent_fabric.config.loader import read_config
from agent_fabric.config.schema.observability import LogConfig
from agent_fabric.config.schema.secrets import SecretsConfig
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.secrets.references import KnownSecrets
from agent_fabric.infrastructure.observability.operations_log import (
    close_operations_log,
    configure_operations_log,
    operations_log,
)
from agent_fabric.infrastructure.secrets.folder_secrets import Secrets
from agent_fabric.infrastructure.secrets.keyring import SETTLE_S
from agent_fabric.testing.scripted_model import Call, Finish, ScriptedModel, Status
from e2e.fabric_process import local_fabric, settings
from integration.secrets.test_vault import TOKEN, standing_in

SECRET = "sk-8f3a-kept-elsewhere"
LOOK = Call("list_files", {"path": "."})
DONE = Finish(summary="done", artifacts=[], next_steps=[], notes="")


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def secrets_of(folder: Path, known: KnownSecrets | None = None, **configured: Any) -> Secrets:
    return open_secrets(SecretsConfig.model_validate(configured), folder / ".fabric", os.environ, known=known)


def holding(text: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.proves("A33-121")
async def test_a_models_key_comes_from_a_vault_whose_token_is_in_our_own_file(tmp_path: Path) -> None:
    async with ScriptedModel([LOOK, DONE]) as model, standing_in() as vault:
        vault.secrets = {"models/cloud": {"key": SECRET}}
        places = {"vault": {"url": f"http://127.0.0.1:{vault.port}", "token": "file:OPENS_THE_VAULT"}}
        configured = settings(model.base_url, model={"api_key": "vault:models/cloud#key"}, secrets=places)
        async with local_fabric(tmp_path, configured) as fabric, asyncio.timeout(30):
            fabric.secrets.file.set("OPENS_THE_VAULT", TOKEN)
            task = task_from(read_config({}, overrides=configured).config, "do it", pack="engineering")
            result = await fabric.execute_task(task)
        assert result.status is RunStatus.COMPLETED, result.error
        assert {request.headers["authorization"] for request in model.requests} == {f"Bearer {SECRET}"}
        assert len(vault.requests) == 1
    assert holding(SECRET, tmp_path) == []
    assert holding(TOKEN, tmp_path) == []


@pytest.mark.proves("A33-121")
async def test_a_kept_key_that_a_server_repeats_is_not_written_down(tmp_path: Path) -> None:
    async with ScriptedModel([Status(401, f'{{"error": "no such key: {SECRET}"}}')]) as model:
        configured = settings(model.base_url, model={"headers": {"X-Key": "Token file:LAB_KEY"}})
        async with local_fabric(tmp_path, configured) as fabric, asyncio.timeout(30):
            fabric.secrets.file.set("LAB_KEY", SECRET)
            task = task_from(read_config({}, overrides=configured).config, "do it", pack="engineering")
            result = await fabric.execute_task(task)
    assert result.status is RunStatus.FAILED
    assert model.requests[0].headers["x-key"] == f"Token {SECRET}"
    assert holding(SECRET, tmp_path) == []


@pytest.mark.proves("A33-121")
async def test_a_value_is_kept_out_of_events_and_of_the_log_from_its_first_use_on(tmp_path: Path) -> None:
    known, stream = KnownSecrets(), io.StringIO()
    secrets = secrets_of(tmp_path, known)
    secrets.file.set("LAB_KEY", SECRET)
    configure_operations_log(LogConfig(format="json"), (), stream)
    try:
        await secrets.chain.resolve("file:LAB_KEY")
        operations_log("test").info("told", text=f"the key is {SECRET}")
    finally:
        close_operations_log()
    assert known.hide(f"the key is {SECRET}") == "the key is [secret LAB_KEY]"
    assert "told" in stream.getvalue()
    assert SECRET not in stream.getvalue()


@pytest.mark.proves("A33-121")
async def test_workflows_do_not_get_what_opens_us_even_if_everything_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TOKEN", SECRET)
    monkeypatch.setenv("LAB_VAULT", "hvs.opens-the-vault")
    monkeypatch.setenv("JWT_SECRET", "signs everything")
    secrets = secrets_of(tmp_path, vault={"url": "http://127.0.0.1:9", "token": "env:LAB_VAULT"}, sources=["env"])
    names = ("LAB_TOKEN", "LAB_VAULT", "JWT_SECRET", "ENCRYPTION_KEY")
    assert [await secrets.for_workflows.get(name) for name in names] == [SECRET, None, None, None]


async def test_encrypted_runs_and_secrets_can_be_read_after_a_rotation_and_without_the_old_key(tmp_path: Path) -> None:
    async with ScriptedModel([LOOK, DONE]) as model:
        configured = settings(model.base_url, encryption="all")
        async with local_fabric(tmp_path, configured) as fabric, asyncio.timeout(30):
            secrets = fabric.secrets
            secrets.file.set("LAB_KEY", SECRET)
            task = task_from(read_config({}, overrides=configured).config, "do it in secret", pack="engineering")
            run_id = (await fabric.execute_task(task)).run_id
            done = await resealing(secrets, fabric.records.storage)(by=owner_here())
            assert (done.new_key, done.secrets, done.runs) == (True, 1, 1)
            with pytest.raises(ConfigError, match="just now"):
                await resealing(secrets, fabric.records.storage).drop_old(by=owner_here())
            keys, long_ago = tmp_path / "data" / "agent-fabric" / "encryption.keys", time.time() - SETTLE_S - 1
            os.utime(keys, (long_ago, long_ago))
            await resealing(secrets, fabric.records.storage).drop_old(by=owner_here())
            assert secrets.keyring().generations() == (done.generation,)
    records = open_records(tmp_path / ".fabric")
    try:
        events = await records.runs.read(run_id)
    finally:
        records.close()
    assert "do it in secret" in repr(events)
    assert await secrets_of(tmp_path).chain.get("LAB_KEY") == SECRET
    assert holding("do it in secret", tmp_path) == []


@pytest.mark.proves("A33-121")
def test_who_keeps_no_secrets_pays_nothing_for_them(tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from pathlib import Path
from agent_fabric.bootstrap.local import build_local
from agent_fabric.config.loader import read_config

async def main():
    vault = {"secrets": {"vault": {"url": "https://vault.invalid"}}}
    fabric = build_local(Path(sys.argv[1]), read_config({}, overrides=vault))
    assert await fabric.secrets.chain.resolve("env:LAB_TOKEN") == "a value"
    assert await fabric.secrets.for_workflows.get("LAB_TOKEN") == "a value"
    assert fabric.secrets.file.list_secrets() == []
    await fabric.aclose()

asyncio.run(main())
print(sorted({"cryptography", "aiohttp", "jwt", "structlog"} & sys.modules.keys()))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / ".fabric")],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LAB_TOKEN": "a value"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("[]\n", 0), ended.stderr
    assert not (tmp_path / ".local" / "share" / "agent-fabric" / "encryption.keys").exists()
