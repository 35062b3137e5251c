"""A pack with the tools of servers."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.mcp import ServerReport
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.errors import ToolServerUnavailable
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.infrastructure.packs.mcp_augmented import McpAugmentedPack, ServersOfPack

CONTEXT = ToolContext(run_id=RunId("r"), call_id=CallId("c"), timeout_s=1.0, network_allowed=True)
OWN = make_tool_def("own", "The pack's.", {}, effect=Effect.READS)


@dataclass
class FakeTools:
    """ServerTools of a server that answers with its name."""

    report: ServerReport
    tools: Sequence[ToolSpec]
    fails_to_leave: bool = False
    released: int = 0

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(output={"by": self.report.server, "tool": name})

    async def release(self) -> None:
        self.released += 1
        if self.fails_to_leave:
            raise OSError("stuck")


@dataclass
class FakeServers:
    """ToolServers of which each does what the test says."""

    ways: Mapping[str, Callable[[], Any]]
    connected: list[FakeTools] = field(default_factory=list)
    waiting: int = 0

    async def connect(self, server: MCPServerConfig, *, workspace: str, sandbox: Sandbox | None = None) -> FakeTools:
        self.waiting += 1
        async with asyncio.timeout(60):
            while self.waiting < len(self.ways):  # until all are at it: they are opened at once
                await asyncio.sleep(0)
        found: FakeTools = self.ways[server.name]()
        self.connected.append(found)
        return found


def offering(name: str, *tools: str, fails_to_leave: bool = False) -> FakeTools:
    specs = [make_tool_def(tool, "A server's.", {}, effect=Effect.READS) for tool in tools]
    return FakeTools(ServerReport(server=name, offered=tools), specs, fails_to_leave)


def failing() -> FakeTools:
    raise ToolServerUnavailable("it did not answer", hint="Start it.")


def pack_with(servers: FakeServers, *, network_allowed: bool = True, **settings: Any) -> McpAugmentedPack:
    inner = BaseSpecialistPack(
        system_prompt="Work.",
        compact_prompt="Work!",
        compact_tools=(OWN,),
        tools=[(OWN, tool_from(lambda: {"by": "pack"}))],
        finish=make_finish_tool_def({}, required=()),
    )
    configs = [MCPServerConfig.model_validate({"name": name, "command": [name], **settings}) for name in servers.ways]
    parts = ServersOfPack(servers=configs, tool_servers=servers, workspace="/w", network_allowed=network_allowed)
    return McpAugmentedPack(inner, parts)


@pytest.mark.proves("AF-093")
async def test_tools_are_merged_and_calls_go_to_their_owner() -> None:
    servers = FakeServers(
        {"one": lambda: offering("one", "mcp__one__a"), "two": lambda: offering("two", "mcp__two__a")}
    )
    pack = pack_with(servers)
    await pack.aopen()
    assert [spec.name for spec in pack.tool_definitions] == ["own", "mcp__one__a", "mcp__two__a"]
    assert [spec.name for spec in pack.compact_tools or ()] == ["own", "mcp__one__a", "mcp__two__a"]
    assert [
        (await pack.execute_tool(name, {}, CONTEXT)).output["by"] for name in ("own", "mcp__one__a", "mcp__two__a")
    ] == ["pack", "one", "two"]
    with pytest.raises(KeyError):
        await pack.execute_tool("mcp__one__b", {}, CONTEXT)
    assert pack.notices == []
    await pack.aclose()
    assert [each.released for each in servers.connected] == [1, 1]


@pytest.mark.proves("AF-093")
async def test_a_server_that_fails_blocks_nobody_and_everybody_learns_of_it() -> None:
    servers = FakeServers({"bad": failing, "good": lambda: offering("good", "mcp__good__a"), "odd": lambda: 1 / 0})
    pack = pack_with(servers)
    await pack.aopen()
    assert [spec.name for spec in pack.tool_definitions] == ["own", "mcp__good__a"]
    assert pack.notices == [
        "The tool server 'bad' cannot be used: it did not answer. Start it.",
        "The tool server 'odd' cannot be used: ZeroDivisionError: division by zero",
    ]
    for prompt in (pack.system_prompt, pack.compact_prompt):
        assert prompt is not None
        assert "'bad' is not available" in prompt
    await pack.aclose()


@pytest.mark.proves("AF-093")
async def test_a_server_that_cannot_leave_does_not_stop_the_others() -> None:
    servers = FakeServers(
        {"stuck": lambda: offering("stuck", "mcp__stuck__a", fails_to_leave=True), "good": lambda: offering("good")}
    )
    pack = pack_with(servers)
    await pack.aopen()
    await pack.aclose()
    await pack.aclose()
    assert [each.released for each in servers.connected] == [1, 1]


async def test_a_name_that_the_pack_itself_has_stays_the_packs() -> None:
    pack = pack_with(FakeServers({"one": lambda: offering("one", "own", "mcp__one__a")}))
    await pack.aopen()
    assert [spec.name for spec in pack.tool_definitions] == ["own", "mcp__one__a"]
    assert (await pack.execute_tool("own", {}, CONTEXT)).output == {"by": "pack"}
    assert pack.notices == ["1 tool of the server 'one' not offered, named like a tool of the pack: own"]


async def test_a_run_without_network_gets_no_server_that_has_one() -> None:
    servers = FakeServers({"one": lambda: offering("one", "mcp__one__a")})
    pack = pack_with(servers, network_allowed=False, network=True)
    await pack.aopen()
    assert servers.connected == []
    assert "may not use" in pack.notices[0]


@pytest.mark.proves("AF-095")
def test_without_the_sdk_a_pack_with_servers_says_how_to_install_it(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
sys.modules["mcp"] = None
from pathlib import Path
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.errors import PackBroken
from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers
servers = LazyToolServers(folder=Path({str(tmp_path)!r}), environ={{}})
config = MCPServerConfig(name="docs", command=("docs",))
try:
    asyncio.run(servers.connect(config, workspace=""))
except RuntimeError as problem:
    assert isinstance(problem, PackBroken)
    print(problem.message, problem.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert 'pip install "agent-fabric[mcp]"' in done.stdout


def test_nothing_of_the_sdk_is_imported_before_a_server_is_needed() -> None:
    code = "import sys, agent_fabric.interfaces.cli.tools.mcp; print('mcp' in sys.modules, 'httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]
