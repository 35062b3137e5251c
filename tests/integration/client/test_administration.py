"""What administrators do through the typed client, against a real server."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_fabric.client import FabricClient
from agent_fabric.domain.errors import (
    AccountNotFound,
    ConfigError,
    DefinitionNotFound,
    Forbidden,
    InvalidInputs,
    NameTaken,
    SecretNotFound,
    Unauthenticated,
)
from agent_fabric.domain.identity.principals import Kind, Scope
from integration.http.served import PATIENCE_S, Served, served

pytestmark = pytest.mark.proves("C15")

TOOLS = Path(__file__).parents[1] / "mcp" / "hostile_server.py"
TAME = {"name": "tame", "command": [sys.executable, str(TOOLS), "plain"], "trusted": True}
FAILS = """\
name: w
version: 1.0.0
steps:
- {id: one, action: transform, inputs: {x: 1}}
- {id: two, action: run-command, command: "false", depends_on: [one]}
"""
PASSWORD = "correct horse battery staple"


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keys, pins and what models can do are kept in the test's own folder."""
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    return tmp_path


@pytest.fixture
async def server(own_folders: Path) -> AsyncIterator[Served]:
    also = {"specialists": {"engineering": {"mcp_servers": [TAME]}}}
    async with served(own_folders, also=also) as server:
        yield server


@pytest.fixture
async def client(server: Served) -> AsyncIterator[FabricClient]:
    async with FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
        yield client


def also_as(server: Served, token: str) -> FabricClient:
    return FabricClient(f"http://127.0.0.1:{server.port}", token=token)


async def test_people_come_change_and_go(server: Served, client: FabricClient) -> None:
    added = await client.users.add("ada", password=PASSWORD, role="member")
    assert (added["role"], added["has_password"]) == ("member", True)
    with pytest.raises(NameTaken):
        await client.users.add("ada")
    with pytest.raises(InvalidInputs, match="cannot be the name"):
        await client.users.add("Ada!")
    with pytest.raises(InvalidInputs, match="shorter"):
        await client.users.set_password("ada", "short")
    await client.users.set_password("ada", PASSWORD + "!")
    token = await client.users.issue_token("ada", scopes=["runs:read"], lifetime_s=60)
    async with also_as(server, token["access_token"]) as hers:
        who = await hers.me()
        assert (who.name, who.kind, who.scopes) == ("ada", Kind.USER, frozenset({Scope.RUNS_READ}))
        with pytest.raises(Forbidden):
            await hers.users.list()
        with pytest.raises(Forbidden):
            await hers.examine()
    changed = await client.users.change("ada", role="viewer", scopes=["approvals"], disabled=True)
    assert (changed["extra_scopes"], changed["disabled"]) == (["approvals"], True)
    with pytest.raises(Forbidden, match="disabled"):
        await client.users.issue_token("ada")
    async with also_as(server, token["access_token"]) as hers:
        with pytest.raises(Unauthenticated):
            await hers.me()
    assert await client.users.remove("ada") == {"name": "ada", "removed": True, "keys": []}
    assert await client.users.list() == []
    for missing in ("ada", "..", "a/b", ""):
        with pytest.raises(AccountNotFound):
            await client.users.show(missing)


async def test_a_key_opens_what_it_is_for_until_it_is_revoked(server: Served, client: FabricClient) -> None:
    made = await client.keys.create("ci", scopes=["runs"], lasts_s="never")
    async with also_as(server, made["key"]) as program:
        assert (await program.runs.list()) == []
        with pytest.raises(Forbidden):
            await program.keys.list()
        assert (await client.keys.revoke("ci"))["status"] == "revoked"
        with pytest.raises(Unauthenticated):
            await program.runs.list()
    assert await client.keys.list() == []
    assert [each["id"] for each in await client.keys.list(also_dead=True)] == [made["id"]]
    for missing in ("ci", "..", "a/b"):
        with pytest.raises(AccountNotFound):
            await client.keys.revoke(missing)


async def test_secrets_go_in_and_never_come_out(client: FabricClient) -> None:
    assert await client.secrets.set("TOKEN", "a secret value")
    assert not await client.secrets.set("TOKEN", "another value")
    listed = await client.secrets.list()
    assert [each["name"] for each in listed["secrets"]] == ["TOKEN"]
    assert "value" not in str(listed)
    rotated = await client.secrets.rotate()
    assert (rotated["secrets"], rotated["keys"][0]) == (1, rotated["generation"])
    await client.secrets.remove("TOKEN")
    for missing in ("TOKEN", "..", "a/b", "rotate/../x", ""):
        with pytest.raises(SecretNotFound):
            await client.secrets.remove(missing)


async def test_the_record_is_checked_and_old_runs_go(client: FabricClient) -> None:
    result = await client.run("do it", pack="engineering")
    async with asyncio.timeout(PATIENCE_S):
        while (checked := await client.audit.verify())["untied"]:  # in PostgreSQL, for some seconds
            await asyncio.sleep(0.1)
    assert (await client.audit.verify(expect=checked["head"]))["holds"]
    wrong = await client.audit.verify(expect="0" * 64)
    assert (wrong["holds"], len(wrong["damage"])) == (False, 1)
    assert (await client.audit.collect_garbage(older_than_s=3600))["removed"] == []
    would = await client.audit.collect_garbage(older_than_s=0, dry_run=True)
    assert would["removed"] == [result.run_id]
    assert (await client.audit.collect_garbage(older_than_s=0))["removed"] == [result.run_id]
    assert await client.runs.list() == []
    assert (await client.audit.verify())["removed"] == 1


async def test_the_policy_is_explained_and_other_rules_are_tried(client: FabricClient) -> None:
    assert (await client.policy.show())["version"]
    checked = await client.policy.check("make test && git push")
    assert (checked["verdict"], len(checked["parts"])) == ("ask", 2)
    await client.run("do it", pack="engineering")
    tried = await client.policy.simulate('{"rules": [{"id": "x", "verdict": "block", "tools": ["list_files"]}]}')
    assert [each["after"]["verdict"] for each in tried["changes"]] == ["block"]
    for text in ("", "{", "rules: 5", "rules: [{id: x, verdict: never}]", "a: &a [*a]"):
        if text:
            with pytest.raises(ConfigError):
                await client.policy.simulate(text)
        else:
            assert (await client.policy.simulate(text))["changes"] == []


async def test_definitions_are_checked_beside_those_of_the_server(server: Served, client: FabricClient) -> None:
    agents = await client.agents.validate("name: greeter\nprompts: {system: You greet.}\n", file="greeter.yaml")
    assert (agents["valid"], agents["files"]) == (True, ["greeter.yaml"])
    text = "name: w\nversion: 1.0.0\nsteps: [{id: a, action: invoke-agent, agent: nobody}]"
    workflows = await client.workflows.validate(text, file="w.yaml")
    assert not workflows["valid"]
    assert workflows["problems"][0]["file"] == "w.yaml"
    assert (await client.workflows.validate())["files"] == []
    with pytest.raises(DefinitionNotFound):
        await client.workflows.validate(name="nothing")
    assert (await client.agents.everything())["folders"]
    assert not list(server.command.folder.rglob("w.yaml"))


async def test_a_workflow_goes_on_with_its_file_as_it_is_now(server: Served, client: FabricClient) -> None:
    folder = server.command.folder / "workflow-definitions"
    folder.mkdir()
    (folder / "w.yaml").write_text(FAILS)
    failed = await client.workflows.start("w", network_allowed=False)
    await server.settled(failed)
    (folder / "w.yaml").write_text(FAILS.replace("steps:", "inputs: {n: {type: integer, required: true}}\nsteps:"))
    with pytest.raises(InvalidInputs, match="keeps the inputs"):
        await client.workflows.resume(failed, inputs={"n": 1})
    with pytest.raises(InvalidInputs):
        await client.workflows.resume(failed, current=True)
    again = await client.workflows.resume(failed, current=True, inputs={"n": 1})
    shown = await server.settled(again)
    assert shown["step_results"][0]["status"] == "success"
    assert (await client.workflows.run(again))["_meta"]["forked_from"] == failed
    with pytest.raises(ConfigError, match="no model"):
        await client.workflows.start("w", {"n": 1}, model_key="nothing")


async def test_models_tools_and_the_machine_are_looked_at(client: FabricClient) -> None:
    probed = await client.models.probe()
    assert (probed["key"], probed["model"]) == ("quality", "scripted")
    with pytest.raises(ConfigError, match="no model"):
        await client.models.probe("nothing")
    (listed,) = (await client.tool_servers.list())["servers"]
    assert (listed["name"], listed["state"]) == ("tame", "never_used")
    inspected = await client.tool_servers.inspect("engineering/tame")
    assert "mcp__tame__work" in {tool["name"] for tool in inspected["tools"]}
    with pytest.raises(DefinitionNotFound, match="no tool server"):
        await client.tool_servers.inspect("../tame")
    assert list((await client.skills.list())["skills"]) == []
    with pytest.raises(DefinitionNotFound, match="no skill"):
        await client.skills.show("notes")
    examined = await client.examine()
    assert {"python", "configuration", "encryption"} <= {each["about"] for each in examined["findings"]}
    assert list(await client.not_ready_because()) == []
