"""Servers are started once, kept for a while, and ended together."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ToolServerUnavailable
from integration.mcp.servers_for_tests import HOSTILE, ask, hostile, server, tool_servers, workspace_in
from services import need_program


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while alive(pid):
            await asyncio.sleep(0.02)


async def test_packs_that_open_at_once_share_one_server(tmp_path: Path) -> None:
    async with tool_servers(tmp_path) as servers:
        many = await asyncio.gather(*(servers.connect(hostile("plain"), workspace="") for _ in range(5)))
        pids = {await ask(tools, "pid") for tools in many}
        assert len(pids) == 1
        for tools in many[:4]:
            await tools.release()
            await tools.release()
        assert await ask(many[4], "work") == "done", "who is left keeps the server"


async def test_an_idle_server_ends_and_is_started_again_when_it_is_needed(tmp_path: Path) -> None:
    config = hostile("plain", idle_s=0.1)
    async with tool_servers(tmp_path) as servers:
        tools = await servers.connect(config, workspace="")
        first = await ask(tools, "pid")
        await tools.release()
        await gone(first)
        again = await servers.connect(config, workspace="")
        assert await ask(again, "pid") != first


async def test_closing_ends_all_servers_together_also_those_that_are_starting(tmp_path: Path) -> None:
    stuck = [hostile("stays", name=f"stuck{number}") for number in range(4)]
    async with tool_servers(tmp_path) as servers:
        tools = await asyncio.gather(*(servers.connect(each, workspace="") for each in stuck))
        pids = [await ask(each, "pid") for each in tools]
        starting = asyncio.create_task(servers.connect(hostile("silent", name="slow"), workspace=""))
        await asyncio.sleep(0)
        started = time.monotonic()
        await servers.aclose()
        assert time.monotonic() - started < 12, "four times three seconds if one waited for the other"
        assert not any(map(alive, pids))
        with pytest.raises(ToolServerUnavailable):
            await starting


async def test_a_server_that_wants_a_workspace_can_be_looked_at_without_one(tmp_path: Path) -> None:
    need_program("bwrap", package="bubblewrap")
    command = [sys.executable, HOSTILE, "plain", "{workspace}/mark"]
    async with tool_servers(tmp_path) as servers:
        found = await servers.inspect(server(name="hostile", command=command, workspace="rw"))
        assert len(found.tools) == 9
        assert found.protocol == "2025-11-25"


async def test_a_link_in_the_workspace_brings_nothing_into_the_box(tmp_path: Path) -> None:
    need_program("bwrap", package="bubblewrap")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "config").write_text("private")
    workspace = workspace_in(tmp_path)
    (workspace / ".git").symlink_to(secrets)
    config = server(name="hostile", command=[sys.executable, HOSTILE, "plain"], workspace="rw")
    async with tool_servers(tmp_path) as servers:
        tools = await servers.connect(config, workspace=str(workspace))
        paths = [str(workspace / ".git" / "config"), str(secrets / "config")]
        found = await ask(tools, "reach", read=paths)
        assert all(found[path].startswith("refused") for path in paths)
    if os.getuid() == 0:
        assert (secrets / "config").stat().st_uid == 0, "what a link points to stays whose it was"


async def test_a_variable_that_is_missing_and_a_program_that_is_not_there_are_named(tmp_path: Path) -> None:
    async with tool_servers(tmp_path, {"PATH": "/usr/bin"}) as servers:
        with pytest.raises(ToolServerUnavailable, match="no program 'no-such-server'"):
            await servers.connect(server(name="a", command=["no-such-server"]), workspace="")
