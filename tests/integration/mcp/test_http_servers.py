"""Servers that are reached over HTTP: Streamable HTTP of both generations, and SSE as it was before."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_fabric.domain.errors import ConfigError, ToolServerUnavailable
from free_ports import free_port
from integration.mcp.real_servers import node_server
from integration.mcp.servers_for_tests import ask, server, tool_servers

MODERN = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("modern")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


@asynccontextmanager
async def listening(*command: str, port: int) -> AsyncIterator[None]:
    """Run a program until the end of the test, from when it listens."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None, "the server ended"
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.proves("AF-090", "C18")
@pytest.mark.parametrize(("way", "transport", "path"), [("streamableHttp", "http", "mcp"), ("sse", "sse", "sse")])
async def test_everything_is_reached_over_http(tmp_path: Path, way: str, transport: str, path: str) -> None:
    port = free_port()
    async with listening(*node_server("server-everything"), way, port=port), tool_servers(tmp_path) as servers:
        config = server(name="everything", transport=transport, url=f"http://127.0.0.1:{port}/{path}")
        tools = await servers.connect(config, workspace="")
        assert tools.report.protocol == "2025-11-25"
        assert await ask(tools, "echo", message="hello") == "Echo: hello"


@pytest.mark.slow
async def test_a_server_of_the_newer_generation_is_reached_again_after_it_was_gone(tmp_path: Path) -> None:
    port = free_port()
    script = tmp_path / "modern.py"
    script.write_text(MODERN)
    config = server(name="modern", transport="http", url=f"http://127.0.0.1:{port}/mcp", read_only_tools=["add"])
    async with tool_servers(tmp_path) as servers:
        async with listening(sys.executable, str(script), str(port), port=port):
            tools = await servers.connect(config, workspace="")
            assert tools.report.protocol == "2026-07-28"
            assert await ask(tools, "add", a=2, b=3) == 5
        with pytest.raises(ToolServerUnavailable):
            await ask(tools, "add", a=2, b=3)
        async with listening(sys.executable, str(script), str(port), port=port):
            assert await ask(tools, "add", a=20, b=3) == 23


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_nobody_at_the_address_is_a_clear_error(tmp_path: Path, transport: str) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    async with tool_servers(tmp_path) as servers:
        with pytest.raises(ToolServerUnavailable, match="'gone'"):
            await servers.connect(server(name="gone", transport=transport, url=url), workspace="")


async def test_an_answer_without_end_is_given_up(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
        try:
            while True:
                writer.write(b" " * 100_000)
                await writer.drain()
        except OSError:
            writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, tool_servers(tmp_path) as servers:
        config = server(name="endless", transport="http", url=f"http://127.0.0.1:{port}/mcp", start_timeout_s=20)
        with pytest.raises(ToolServerUnavailable):
            await servers.connect(config, workspace="")


async def test_secrets_in_headers_are_references_and_reach_the_server(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(4_000))
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    config = server(name="keyed", transport="http", url=url, headers={"Authorization": "Bearer env:MY_KEY"})
    async with listener:
        async with tool_servers(tmp_path, {"MY_KEY": "s3cret"}) as servers:
            with pytest.raises(ToolServerUnavailable) as caught:
                await servers.connect(config, workspace="")
            assert "s3cret" not in caught.value.message
        assert b"authorization: bearer s3cret" in heard[0].lower()
        async with tool_servers(tmp_path, {}) as servers:
            with pytest.raises(ConfigError, match="MY_KEY"):
                await servers.connect(config, workspace="")
