"""What is not about single runs does the same at a server as on this machine, too."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_fabric.testing.scripted_model import Call, Finish, Script
from e2e.agents.test_agents import GREETER
from e2e.server.both_ways import Both, Step, both_ways, step
from e2e.workflows.test_workflows import FAILS, GREET

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.proves("C15", "A33-005"),
]

DONE = Finish(summary="all done", artifacts=[], next_steps=[], notes="")
SCRIPT = Script(
    turns=(Call("shell", {"command": "echo one && git status"}), DONE),
    named={"greets": (Finish(greeting="Hello, Ada!", length=11),)},
)
WAITS = {"name": "waits", "version": "1.0.0", "steps": [{"id": "w", "action": "wait", "inputs": {"event": "go"}}]}
WRONG = {"name": "wrong", "version": "1.0.0", "steps": [{"id": "a", "action": "dance"}, {"id": "a", "action": "wait"}]}
LATE = {**WAITS, "triggers": {"manual": True, "schedule": "0 9 * * *"}}
BROKEN_AGENT = "name: broken\nroll: worker\nprompts: {user: hello}\n"
STRICTER = "rules:\n- {id: no-echo, verdict: block, commands: [echo], reason: no noise}\n"

SCENARIOS: dict[str, tuple[Step, ...]] = {
    "who did what": (
        step("run", "look around", "--json"),
        step("audit", "list", "--json"),
        step("audit", "list", "--run", "{run}"),
        step("audit", "list", "--run", "nothing", "--json"),
        step("audit", "verify", "--expect", "0123", "--shared", "--json"),
        step("gc", "--older-than", "30d", "--json"),
    ),
    "what may happen": (
        step("policy", "show"),
        step("policy", "check", "make test && git push", "--agent", "engineering"),
        step("run", "look around", "--json"),
        step("policy", "simulate", "stricter.yaml", "--json"),
        step("policy", "simulate", "broken.yaml", "--json"),
        step("policy", "simulate", "missing.yaml", "--json"),
    ),
    "agents": (
        step("agents", "list", "--json"),
        step("agents", "show", "greeter"),
        step("agents", "show", "nobody", "--json"),
        step("agents", "validate", "--json"),
        step("agents", "validate", "elsewhere/greeter.md", "elsewhere/broken.yaml", "elsewhere/missing.md"),
    ),
    "an agent at work": (
        step("agents", "run", "greeter", "-i", "name=Ada [[script=greets]]", "--json"),
        step("agents", "run", "greeter", "-i", "name=Ada [[script=greets]]", compares_err=True),
        step("agents", "run", "greeter", "-i", "times=many", "--json"),
        step("agents", "run", "greeter", "-i", "name=Ada", "--model-key", "none", "--json"),
        step("agents", "run", "broken", "--json"),
    ),
    "models and tool servers": (
        step("models", "list"),
        step("models", "probe", "nothing", "--json"),
        step("mcp", "list", "--json"),
        step("mcp", "inspect", "nothing", "--json"),
    ),
    "people and secrets": (
        step("users", "add", "ada", "--no-password", "--role", "admin", "--json"),
        step("users", "add", "Ada!", "--no-password", "--json"),
        step("users", "set", "ada", "--role", "viewer", "--scope", "approvals", compares_err=True),
        step("users", "list", "--json"),
        step("users", "remove", "ada", "--json"),
        step("keys", "revoke", "nothing", "--json"),
        step("token", "issue", "nobody", "--json"),
        step("secrets", "list", "--json"),
        step("secrets", "set", "no name", "--stdin", "--json"),
    ),
    "workflows": (
        step("workflow", "list"),
        step("workflow", "show", "greet"),
        step("workflow", "show", "elsewhere/other.yaml", "--json"),
        step("workflow", "show", "nothing", "--json"),
        step("workflow", "graph", "greet", "--format", "mermaid"),
        step("workflow", "validate"),
        step("workflow", "validate", "greet", "elsewhere/other.yaml", "elsewhere/wrong.yaml", "missing.yaml", "--json"),
        step("workflow", "validate", "elsewhere/wrong.yaml", "elsewhere/late.yaml"),
    ),
    "a workflow at work": (
        step("workflow", "run", "greet", "-i", "who=Ada", "--dry-run"),
        step("workflow", "run", "greet", "-i", "who=Ada", "-i", "times=3", "--json"),
        step("workflow", "lineage", "{run}"),
        step("workflow", "run", "greet", "-i", "whom=Ada", "--json"),
        step("workflow", "run", "wrong", "--json"),
        step("workflow", "run", "greet", "-i", "who=Ada", "--model-key", "none", "--json"),
    ),
    "a workflow that fails": (
        step("workflow", "run", "fails", "--json"),
        step("workflow", "resume", "{run}", "--json", compares_err=True),
        step("workflow", "resume", "{run}", "--from", "nothing", "--json"),
        step("workflow", "cancel", "{run}", "--json"),
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Both]:
    folder: Path = tmp_path_factory.mktemp("more")
    for place in ("here", "away"):
        _furnish(folder / place)
    async with both_ways(folder, SCRIPT) as both:
        yield both


def _furnish(folder: Path) -> None:
    agents, workflows, elsewhere = (
        folder / each for each in ("agent-definitions", "workflow-definitions", "elsewhere")
    )
    for each in (agents, workflows, elsewhere):
        each.mkdir(parents=True)
    for name, definition in {"greet": GREET, "fails": FAILS, "waits": WAITS, "wrong": WRONG}.items():
        (workflows / f"{name}.json").write_text(json.dumps(definition, indent=1))
    for name, definition in {"other": GREET, "wrong": WRONG, "late": LATE}.items():
        (elsewhere / f"{name}.yaml").write_text(json.dumps({**definition, "name": f"other-{name}"}, indent=1))
    (agents / "greeter.md").write_text(GREETER)
    (agents / "broken.yaml").write_text(BROKEN_AGENT)
    (elsewhere / "greeter.md").write_text(GREETER.replace("name: greeter", "name: other"))
    (elsewhere / "broken.yaml").write_text(BROKEN_AGENT.replace("broken", "other"))
    (folder / "stricter.yaml").write_text(STRICTER)
    (folder / "broken.yaml").write_text(json.dumps({"rules": [{"id": "x", "verdict": "never"}]}))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_command_does_the_same_at_a_server(both: Both, scenario: str) -> None:
    await both.compare(*SCENARIOS[scenario])


async def test_a_workflow_that_is_told_what_it_waits_for_goes_on_at_the_server(both: Both) -> None:
    waiting = await both.there("workflow", "run", "waits", "--json")
    run_id = waiting.json["_meta"]["run_id"]
    assert waiting.code == 3
    told = await both.there("workflow", "signal", run_id[:13], "go", "--data", '{"version": "1.2"}', "--json")
    assert told.json == {"run_id": run_id, "signal": "go", "data": {"version": "1.2"}, "resume": None}
    done = await both.there("workflow", "resume", run_id, "--json")
    assert (done.code, done.json["_meta"]["status"]) == (0, "completed")


async def test_keys_and_tokens_of_a_server_are_made_from_afar(both: Both) -> None:
    made = await both.there("keys", "create", "ci", "--scope", "runs", "--json")
    assert (made.code, made.json["scopes"]) == (0, ["runs"])
    by_key = replace(both.there, environment={"FABRIC_API_KEY": made.json["key"]})
    assert (await by_key("logs", "list", "--json")).code == 0
    assert (await by_key("users", "list", "--json")).json["error"]["code"] == "forbidden"
    listed: Any = (await both.there("keys", "list", "--json")).json
    assert [(each["name"], each["status"]) for each in listed] == [("ci", "live")]
    revoked = await both.there("keys", "revoke", "ci", "--json")
    assert revoked.json["status"] == "revoked"
    assert (await by_key("logs", "list", "--json")).json["error"]["code"] == "unauthenticated"
    await both.there("users", "add", "grace", "--no-password", "--json")
    issued = await both.there("token", "issue", "grace", "--lifetime", "1h", "--json")
    assert (issued.json["expires_in"], issued.json["scopes"]) == (3600, ["runs:read"])
    by_token = replace(both.there, environment={"FABRIC_TOKEN": issued.json["access_token"]})
    assert (await by_token("agents", "list", "--json")).code == 0


async def test_what_changes_the_machine_itself_is_done_at_its_own_terminal(both: Both) -> None:
    for words in (("models", "stop"), ("mcp", "trust", "time")):
        refused = await both.there("--server", both.there.server, *words, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (2, "config_invalid")
        assert refused.json["error"]["message"] == f"`fabric {words[0]} {words[1]}` works on this machine only"


async def test_a_server_is_examined_from_afar(both: Both) -> None:
    ended = await both.there("doctor", "--json")
    found = {each["about"]: each for each in ended.json["findings"]}
    assert (ended.code, ended.json["ok"]) == (0, True)
    assert {"server", "readiness", "you", "python", "configuration", "encryption"} <= found.keys()
    assert all(each["level"] != "fail" for each in found.values())
    here = await both.here("doctor", "--json")
    assert {each["about"] for each in here.json["findings"]} <= found.keys()
    lost = await replace(both.there, server="http://127.0.0.1:9")("doctor", "--json")
    assert (lost.code, lost.json["findings"][0]["about"]) == (1, "server")
    assert lost.json["findings"][0]["fix"]


async def test_files_of_this_machine_are_checked_but_not_run_by_a_server(both: Both) -> None:
    ended = await both.there("workflow", "run", "elsewhere/other.yaml", "-i", "who=Ada", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (2, "config_invalid")
    assert "workflow-definitions/" in ended.json["error"]["hint"]
    dry = await both.there("workflow", "run", "elsewhere/other.yaml", "-i", "who=Ada", "--dry-run", "--json")
    assert dry.code == 0
