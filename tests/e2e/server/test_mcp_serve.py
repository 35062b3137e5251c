"""`fabric mcp serve` on standard input and output, tried with the official client."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from agent_fabric.testing.scripted_model import Call, Script, ScriptedModel
from e2e.fabric_process import Fabric, configure, read_lines, settings
from e2e.forked_command import fabric_program
from e2e.server_process import serving
from integration.http.served import DONE, SCRIPT


def started(fabric: Fabric, *arguments: str, **environment: str) -> StdioServerParameters:
    """Say how a program would start it."""
    config = fabric.folder / "fabric-config.json"
    configure(config, fabric.configured)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(fabric.folder),
        "FABRIC_CONFIG_PATH": str(config),
        **environment,
    }
    command, *first = fabric_program()
    return StdioServerParameters(
        command=command,
        args=[*first, "mcp", "serve", *arguments],
        env=variables,
        cwd=fabric.folder,
    )


async def run_task(client: Client) -> dict[str, Any]:
    answer = await client.call_tool("run_task", {"task": "count the otters", "pack": "engineering"})
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def test_a_program_that_starts_it_runs_tasks_without_any_server(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        async with Client(started(fabric, "--workspace", str(fabric.root))) as client:
            done = await run_task(client)
            assert (done["status"], done["result"]["summary"]) == ("completed", "all done")
        listed = (await fabric("logs", "list", "--json")).json["runs"]
        assert [run["run_id"] for run in listed] == [done["run_id"]]


async def test_it_says_at_once_that_a_server_is_gone_or_does_not_let_it_in(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    async with serving(fabric) as server:
        stranger = Fabric(tmp_path / "other", fabric.configured, {"FABRIC_TOKEN": "wrong"}, server=server.url)
        refused = await stranger("mcp", "serve")
    gone = await stranger("mcp", "serve")
    for ended, said in ((refused, "FABRIC_TOKEN was shown"), (gone, "Is the server running?")):
        assert (ended.code, ended.out) == (1, ""), ended.err
        assert said in ended.err


async def test_a_program_may_answer_only_if_it_was_started_with_that_word(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        async with serving(fabric) as server:
            for arguments, offered in (((), False), (("--no-answer",), False), (("--answer",), True)):
                parameters = started(fabric, "--server", server.url, *arguments, FABRIC_TOKEN=server.token)
                async with Client(parameters) as client:
                    tools = {tool.name for tool in (await client.list_tools()).tools}
                    assert ("answer_approval" in tools) is offered


@pytest.mark.proves("WA-5")
async def test_a_run_that_uses_it_starts_others_as_itself_and_answers_nothing(tmp_path: Path) -> None:
    """With agent-fabric as its own tool server, trusted and told that it may answer, a run starts a child."""
    child = {"task": "[[script=ask]] push", "pack": "engineering", "wait_s": 55}
    script = Script(
        turns=(
            Call("mcp__fabric__run_task", child),
            Call("mcp__fabric__answer_approval", {"approval_id": "0000", "decision": "approve"}),
            DONE,
        ),
        named={"ask": (Call("shell", {"command": "make deploy"}), DONE)},
    )
    async with ScriptedModel(script) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        command = [sys.executable, "-m", "agent_fabric.interfaces.cli.main", "mcp", "serve", "--answer"]
        own = {
            "name": "fabric",
            "command": [*command, "--workspace", str(fabric.root)],
            "trusted": True,
            "env": {"FABRIC_CONFIG_PATH": str(tmp_path / "fabric-config.json"), "HOME": str(tmp_path)},
        }
        fabric.configured = {**fabric.configured, "specialists": {"engineering": {"mcp_servers": [own]}}}
        ended = await fabric("run", "count the otters", timeout_s=180)
        assert ended.code == 0, ended.err
        logs = {run_dir.name: read_lines(run_dir) for run_dir in fabric.run_dirs()}
        created = {name: lines[0]["payload"] for name, lines in logs.items()}
        (parent,) = [name for name, payload in created.items() if not payload.get("started_by")]
        (below,) = [name for name, payload in created.items() if payload.get("started_by")]
        assert created[below]["started_by"] == parent
        (failed,) = [line["payload"] for line in logs[parent] if line["kind"] == "tool_error"]
        assert "there is no tool 'mcp__fabric__answer_approval'" in failed["error_message"]
        notices = next(line["payload"]["notices"] for line in logs[parent] if line["kind"] == "pack_start")
        assert not any("cannot be used" in notice for notice in notices), notices
        cards = json.loads((await fabric("approvals", "list", "--json")).out)
        assert [(card["run_id"], card["status"]) for card in cards] == [(below, "pending")]


@pytest.mark.parametrize(
    "options", [["--port", "1"], ["--http", "--server", "http://127.0.0.1:9"], ["--http", "--no-answer"]]
)
async def test_options_that_do_not_go_together_are_refused_and_not_forgotten(
    tmp_path: Path, options: list[str]
) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    ended = await fabric("mcp", "serve", *options)
    assert (ended.code, ended.out) == (2, "")
    assert options[-1] in ended.err or options[0] in ended.err
