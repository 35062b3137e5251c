"""What a server's program can reach from inside its box."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.mcp import ServerProcess
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.errors import ToolServerUnavailable
from agent_fabric.infrastructure.tools.mcp.confinement import BubblewrapServers
from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers
from integration.mcp.servers_for_tests import HOSTILE, ask, context, server, tool_servers, workspace_in
from services import need_program


def boxed(**settings: Any) -> MCPServerConfig:
    need_program("bwrap", package="bubblewrap")
    return server(name="hostile", command=[sys.executable, HOSTILE, "plain"], **settings)


async def test_a_server_sees_neither_the_home_folder_nor_secrets_nor_other_processes(tmp_path: Path) -> None:
    secret = tmp_path / "home" / "id_rsa"
    secret.parent.mkdir()
    secret.write_text("private")
    environ = {**os.environ, "OPENAI_API_KEY": "s3cret", "HTTPS_PROXY": "http://me:s3cret@127.0.0.1:1"}
    async with tool_servers(tmp_path, environ) as servers:
        tools = await servers.connect(boxed(env={"GIVEN": "env:OPENAI_API_KEY"}), workspace="")
        seen = await ask(tools, "env")
        assert seen["GIVEN"] == "s3cret", "what the configuration names is given"
        assert "OPENAI_API_KEY" not in seen
        assert "HTTPS_PROXY" not in seen
        listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with listener:
            found = await ask(
                tools,
                "reach",
                read=[str(secret), "/etc/shadow", "/proc/1/environ"],
                write=["/usr/x", "/x", "/home/server/mine", "/tmp/mine", "/proc/sys/kernel/core_pattern", HOSTILE],
                port=listener.sockets[0].getsockname()[1],
            )
        assert found["uid"] != 0
        assert found[str(secret)].startswith("refused")
        assert found["/etc/shadow"].startswith("refused")
        assert "s3cret" not in found["/proc/1/environ"]
        assert found["port"].startswith("refused")
        for path in ("/usr/x", "/x", "/proc/sys/kernel/core_pattern", HOSTILE):
            assert found[path].startswith("refused"), path
        assert found["/home/server/mine"] == "written"
        assert found["/tmp/mine"] == "written"
        assert not Path("/tmp/mine").exists()


async def test_the_network_is_there_when_the_configuration_says_so(tmp_path: Path) -> None:
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with listener, tool_servers(tmp_path) as servers:
        tools = await servers.connect(boxed(network=True), workspace="")
        found = await ask(tools, "reach", port=listener.sockets[0].getsockname()[1])
        assert found["port"] == "connected"


async def test_a_workspace_is_seen_as_far_as_the_configuration_says(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    for name in (".fabric", ".git"):
        (workspace / name).mkdir()
    (workspace / ".fabric" / "token").write_text("ours")
    (workspace / ".git" / "config").write_text("[core]")
    (workspace / "file").write_text("hello")
    read = [str(workspace / "file"), str(workspace / ".fabric" / "token")]
    write = [str(workspace / "new"), str(workspace / ".git" / "config"), str(workspace / ".fabric" / "token")]
    async with tool_servers(tmp_path) as servers:
        found = await ask(await servers.connect(boxed(), workspace=str(workspace)), "reach", read=read)
        assert all(found[path].startswith("refused") for path in read)
        tools = await servers.connect(boxed(workspace="ro"), workspace=str(workspace))
        found = await ask(tools, "reach", read=read, write=write)
        assert found[str(workspace / "file")] == "hello"
        assert all(found[path].startswith("refused") for path in write)
        tools = await servers.connect(boxed(workspace="rw"), workspace=str(workspace))
        found = await ask(tools, "reach", write=write)
        assert found[str(workspace / "new")] == "written"
        assert found[str(workspace / ".git" / "config")].startswith("refused")
    assert (workspace / ".fabric" / "token").read_text() == "ours"


async def test_what_a_server_makes_at_a_protected_name_is_put_aside_and_told(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    (workspace / ".git").mkdir()
    (workspace / ".mcp.json").write_text("mine")
    names = (".envrc", ".git/commondir", ".npmrc")
    async with tool_servers(tmp_path) as servers:
        tools = await servers.connect(boxed(workspace="rw"), workspace=str(workspace))
        write = [str(workspace / name) for name in (*names, ".mcp.json", "new")]
        result = await tools.call("mcp__hostile__reach", {"write": write}, context())
        assert sorted(result.output["undone"]) == sorted(f"{name!r} is protected" for name in names)
        (workspace / ".envrc").write_text("what the server may have made after its answer")
        await tools.release()
    assert not any((workspace / name).exists() for name in names)
    assert (workspace / ".envrc.refused").exists()
    assert (workspace / ".mcp.json").read_text() == "mine"
    assert (workspace / "new").exists()


async def test_a_server_sees_the_workspace_of_its_own_run_only(tmp_path: Path) -> None:
    folders = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        folders.append(workspace_in(tmp_path / name))
        (folders[-1] / "file").write_text(name)
    files = [str(folder / "file") for folder in folders]
    async with tool_servers(tmp_path) as servers:
        for folder, name in zip(folders, ("one", "two"), strict=True):
            tools = await servers.connect(boxed(workspace="ro"), workspace=str(folder))
            found = await ask(tools, "reach", read=files)
            assert [found[file] == name for file in files] == [name == "one", name == "two"]


async def test_without_bubblewrap_only_a_trusted_server_is_started(tmp_path: Path) -> None:
    none = BubblewrapServers(os.environ, bwrap="")
    servers = LazyToolServers(folder=tmp_path, environ=os.environ, confinement=none)
    command = [sys.executable, HOSTILE, "plain"]
    try:
        with pytest.raises(ToolServerUnavailable, match="no bubblewrap") as caught:
            await servers.connect(server(name="hostile", command=command), workspace="")
        assert "trusted: true" in caught.value.hint
        tools = await servers.connect(server(name="hostile", command=command, trusted=True), workspace="")
        assert await ask(tools, "work") == "done"
    finally:
        await servers.aclose()


def test_the_home_folder_is_never_mounted_for_a_program_that_lies_in_it(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text("")
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    process = ServerProcess(program=str(program), args=(), env={}, home=tmp_path / "data")
    argv = BubblewrapServers({"HOME": str(tmp_path)}, bwrap="/usr/bin/bwrap").launch(process).argv
    mounted = [argv[at + 1] for at, word in enumerate(argv) if word.startswith(("--ro-bind", "--bind"))]
    assert str(tmp_path) not in mounted
