"""Servers that people really use, of both generations of the protocol, inside the sandbox."""

import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.config.schema.tools import MCPServerConfig
from integration.mcp.real_servers import node_server, python_server
from integration.mcp.servers_for_tests import ask, context, server, tool_servers, workspace_in
from services import need_program

pytestmark = pytest.mark.slow


def boxed(**settings: Any) -> MCPServerConfig:
    need_program("bwrap", package="bubblewrap")
    return server(**settings)


def new_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)


@pytest.mark.proves("AF-090", "AF-091", "C18")
async def test_time_speaks_the_newer_generation_and_is_kept_for_the_next_run(tmp_path: Path) -> None:
    config = boxed(name="time", command=[python_server("mcp-server-time")], read_only_tools=["get_current_time"])
    async with tool_servers(tmp_path) as servers:
        started = time.monotonic()
        tools = await servers.connect(config, workspace="")
        start_s = time.monotonic() - started
        assert tools.report.protocol == "2026-07-28"
        assert {spec.name for spec in tools.tools} == {"mcp__time__get_current_time", "mcp__time__convert_time"}
        told = await ask(tools, "get_current_time", timezone="Asia/Tokyo")
        assert told["timezone"] == "Asia/Tokyo"
        await tools.release()
        started = time.monotonic()
        again = await servers.connect(config, workspace="")
        assert time.monotonic() - started < start_s / 2, "a server that runs already is used again"
        assert (await ask(again, "get_current_time", timezone="UTC"))["timezone"] == "UTC"


async def test_git_works_on_the_workspace_it_is_given(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    new_repository(workspace)
    command = [python_server("mcp-server-git"), "--repository", "{workspace}"]
    async with tool_servers(tmp_path) as servers:
        config = boxed(name="git", command=command, workspace="ro")
        tools = await servers.connect(config, workspace=str(workspace))
        status = await ask(tools, "git_status", repo_path=str(workspace))
        assert "No commits yet" in status
        refused = await tools.call("mcp__git__git_status", {"repo_path": "/"}, context())
        assert refused.output["is_error"] is True


async def test_fetch_has_no_network_unless_it_is_given_one(tmp_path: Path) -> None:
    async with tool_servers(tmp_path) as servers:
        config = boxed(name="fetch", command=[python_server("mcp-server-fetch")])
        tools = await servers.connect(config, workspace="")
        assert tools.tools[0].url_argument == "url"
        result = await tools.call("mcp__fetch__fetch", {"url": "http://127.0.0.1:9/"}, context())
        assert result.output["is_error"] is True


@pytest.mark.proves("C18")
async def test_everything_speaks_the_older_generation(tmp_path: Path) -> None:
    async with tool_servers(tmp_path) as servers:
        config = boxed(name="everything", command=[*node_server("server-everything"), "stdio"])
        tools = await servers.connect(config, workspace="")
        assert tools.report.protocol == "2025-11-25"
        assert await ask(tools, "echo", message="hello") == "Echo: hello"
        sums = await asyncio.gather(*(ask(tools, "get-sum", a=n, b=n) for n in range(20)))
        assert [f"is {2 * n}." in text for n, text in enumerate(sums)] == [True] * 20
        image = await tools.call("mcp__everything__get-tiny-image", {}, context())
        assert image.output["attachments"][0]["mime"] == "image/png"
        environment = await ask(tools, "get-env")
        assert environment["HOME"] == "/home/server"
        assert not {name for name in environment if "TOKEN" in name or "KEY" in name}


async def test_filesystem_writes_only_into_the_workspace(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    command = [*node_server("server-filesystem"), "{workspace}"]
    async with tool_servers(tmp_path) as servers:
        config = boxed(name="files", command=command, workspace="rw")
        tools = await servers.connect(config, workspace=str(workspace))
        await ask(tools, "write_file", path=str(workspace / "a.txt"), content="hello")
        assert (workspace / "a.txt").read_text() == "hello"
        assert (workspace / "a.txt").owner() == workspace.owner()
        outside = {"path": str(tmp_path / "b.txt"), "content": "x"}
        refused = await tools.call("mcp__files__write_file", outside, context())
        assert refused.output["is_error"] is True
        assert not (tmp_path / "b.txt").exists()


async def test_memory_keeps_what_it_knows_in_a_folder_of_its_own(tmp_path: Path) -> None:
    command = node_server("server-memory")
    config = boxed(name="memory", command=command, env={"MEMORY_FILE_PATH": "/home/server/memory.jsonl"})
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    async with tool_servers(tmp_path) as servers:
        tools = await servers.connect(config, workspace="")
        await ask(tools, "create_entities", entities=[ada])
    async with tool_servers(tmp_path) as servers:
        tools = await servers.connect(config, workspace="")
        graph = await ask(tools, "read_graph")
        assert "Ada" in json.dumps(graph)
