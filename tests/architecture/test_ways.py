"""No door without a row: every tool and every module that speaks to the network belongs to one of `ways_tables`."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_fabric.infrastructure.packs as packs
import agent_fabric.infrastructure.tools as tools
import agent_fabric.infrastructure.tools.skills as skills
from agent_fabric.application.fleet.fleet_policy import FLEET_PLAN, FleetDoor
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.fleet.served_tools import ServedTool
from agent_fabric.domain.tools.specs import ToolSpec, Trust
from agent_fabric.infrastructure.packs.sysadmin import (
    fleet_plan_tool,
    node_command_tool,
    node_run_tool,
    node_tools,
    served_spec,
)
from agent_fabric.infrastructure.tools.mcp.tool_conversion import ListedTool, tool_spec
from ways_tables import PLAN_TOOL, WayIn, WayOut, way_in_of, way_out_of, ways_in, ways_out

SOURCE = Path(__file__).parents[2] / "src" / "agent_fabric"
PAGE = SOURCE.parents[1] / "docs" / "operate" / "security.md"

_MACHINE = (WayIn.MACHINE, WayOut.MACHINE)
TOOLS: dict[str, tuple[WayIn, WayOut | None]] = {
    "web_search": (WayIn.WEB, WayOut.SEARCH),
    "fetch_url": (WayIn.WEB, WayOut.ADDRESS),
    "http_request": (WayIn.WEB, WayOut.ADDRESS),
    "add_document_page": (WayIn.WEB, WayOut.ADDRESS),
    "browser_open": (WayIn.WEB, WayOut.ADDRESS),
    "browser_read": (WayIn.WEB, None),
    "browser_click": (WayIn.WEB, WayOut.FORM),
    "browser_type": (WayIn.WEB, WayOut.FORM),
    "browser_screenshot": (WayIn.WEB, WayOut.FILE),
    "memory_search": (WayIn.DOCUMENT, None),
    "cross_run_search": (WayIn.OTHER_RUN, None),
    "node_list": (WayIn.LIST_OF_MACHINES, None),
    "fleet-plan": (WayIn.MACHINE, WayOut.PLAN),
    "send_message": (WayIn.WORKSPACE, WayOut.MESSAGE),
    "skill": (WayIn.SKILL, None),
    "copy_skill": (WayIn.SKILL, WayOut.FILE),
    "shell": (WayIn.COMMAND, WayOut.COMMAND),
    **dict.fromkeys(("node-command", "node-run"), _MACHINE),
    **dict.fromkeys(("node_run_command", "node_list_files", "node_read_file", "node_write_file"), _MACHINE),
    **dict.fromkeys(
        ("node_system_info", "node_processes", "node_services", "node_journal", "node_mcp_proxy"), _MACHINE
    ),
    **dict.fromkeys(("read_file", "list_files", "search_files", "look", "write"), (WayIn.WORKSPACE, None)),
    **dict.fromkeys(("write_file", "edit_file", "fix_line"), (WayIn.WORKSPACE, WayOut.FILE)),
    **dict.fromkeys(("remember", "record_evidence", "add_document_file", "embed_documents"), (WayIn.WORKSPACE, None)),
}
"""Every built-in tool: how its text comes in, and how its arguments leave. A new one needs a line here, with care."""

NETWORK = (
    "aiohttp",
    "asyncpg",
    "boto3",
    "discord",
    "ftplib",
    "http.client",
    "httpx",
    "httpx2",
    "nats",
    "opentelemetry.exporter",
    "paramiko",
    "playwright",
    "psycopg",
    "redis",
    "requests",
    "slack_sdk",
    "smtplib",
    "socket",
    "ssl",
    "urllib.request",
    "urllib3",
    "websockets",
)
CONNECTING = frozenset({"open_connection", "open_unix_connection", "create_connection", "create_datagram_endpoint"})
OURS = ("agent_fabric.infrastructure.web", "agent_fabric.infrastructure.sandbox.egress")
"""Our own modules that connect for others."""
MODULES: dict[str, tuple[WayOut, ...]] = {
    "infrastructure/web/": (WayOut.ADDRESS, WayOut.OWN_NEEDS),
    "infrastructure/sandbox/egress/": (WayOut.ADDRESS, WayOut.HOST_NAME, WayOut.COMMAND),
    "infrastructure/sandbox/": (WayOut.COMMAND, WayOut.UNBOXED_COMMAND),
    "infrastructure/policy/outside/": (WayOut.OUTSIDE_COMMAND,),
    "infrastructure/tools/browser/": (WayOut.ADDRESS, WayOut.FORM),
    "infrastructure/tools/mcp/": (WayOut.TOOL_SERVER,),
    "infrastructure/node/": (WayOut.MACHINE, WayOut.OWN_NEEDS),
    "infrastructure/channels/": (WayOut.MESSAGE, WayOut.REPLY),
    "infrastructure/models/": (WayOut.MODEL, WayOut.OWN_NEEDS),
    "infrastructure/identity/": (WayOut.OWN_NEEDS,),
    "infrastructure/secrets/": (WayOut.OWN_NEEDS,),
    "infrastructure/identity/limits/": (WayOut.STORE,),
    "infrastructure/cluster/redis/": (WayOut.STORE,),
    "infrastructure/cluster/nats/": (WayOut.STORE, WayOut.NOTICE),
    "infrastructure/persistence/": (WayOut.STORE,),
    "infrastructure/observability/": (WayOut.TRACES, WayOut.NOTICE),
    "infrastructure/automation/message_sender.py": (WayOut.NOTICE,),
    "infrastructure/runs/workspaces/s3_objects.py": (WayOut.OBJECT_STORE,),
    "infrastructure/audit/audit_head_places.py": (WayOut.AUDIT_HEAD,),
    "interfaces/http/": (WayOut.REPLY, WayOut.MACHINE),
    "interfaces/node/": (WayOut.MACHINE, WayOut.OWN_NEEDS),
    "infrastructure/tools/": (WayOut.ADDRESS, WayOut.SEARCH, WayOut.FORM),
    "infrastructure/packs/": (WayOut.ADDRESS, WayOut.FORM),
    "infrastructure/memory/": (),
    "interfaces/mcp/": (WayOut.REPLY,),
    "client/": (WayOut.REPLY,),
    "infrastructure/machine.py": (),
    "bootstrap/automation.py": (),
}
"""Who may speak to the network, and by which ways; without any, a module only reads names, addresses or pages that
others have brought. A folder that is new here needs a line, and maybe a way."""


def _specs() -> Iterator[ToolSpec]:
    """Yield every tool that stands in a module, and those that are made for each machine and server."""
    for package in (tools, packs, skills):
        for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            found = vars(importlib.import_module(each.name)).values()
            yield from (value for value in found if isinstance(value, ToolSpec))
    door = FleetDoor()
    yield from (spec for spec, _ in node_tools(door))
    yield from (make(door)[0] for make in (node_command_tool, node_run_tool, fleet_plan_tool))


@pytest.mark.proves("WB-1", "WB-2")
def test_every_built_in_tool_has_a_way_in_and_a_way_out() -> None:
    found = {spec.name: (way_in_of(spec), way_out_of(spec)) for spec in _specs()}
    assert found == TOOLS
    assert PLAN_TOOL == FLEET_PLAN


@pytest.mark.proves("WB-1")
def test_whatever_names_a_machine_or_leaves_says_where_it_sends_to() -> None:
    for spec in _specs():
        out = way_out_of(spec)
        if spec.trust is Trust.NODE or out in {WayOut.SEARCH, WayOut.MESSAGE, WayOut.ACTION}:
            assert spec.sends_to, spec.name
    listed = ListedTool(name="look", description="", schema={})
    server = MCPServerConfig(name="wiki", transport="http", url="https://wiki.example/mcp")
    assert (way_in_of(tool_spec(server, listed)), way_out_of(tool_spec(server, listed))) == (
        WayIn.TOOL_SERVER,
        WayOut.TOOL_SERVER,
    )
    boxed = tool_spec(MCPServerConfig(name="local", command=("tool",)), listed)
    assert (way_in_of(boxed), way_out_of(boxed)) == (WayIn.TOOL_SERVER, None)
    served = served_spec(
        ServedTool(name="web-1.disks.usage", node="web-1", server="disks", tool="usage", description="", parameters={})
    )
    assert (way_in_of(served), way_out_of(served)) == _MACHINE


def _connects(module: Path) -> bool:
    """Tell whether a module imports what connects; bootstrap only joins what does."""
    if module.is_relative_to(SOURCE / "bootstrap") and "import socket" not in module.read_text():
        return False
    text = module.read_text()
    if not any(name in text for name in (*NETWORK, *OURS, *CONNECTING)):
        return False  # most modules: parsing them all takes seconds
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names) if any(_is_network(each.name) for each in names):
                return True
            case ast.ImportFrom(module=str() as name) if _is_network(name):
                return True
            case ast.Attribute(attr=name) if name in CONNECTING:
                return True
            case _:
                pass
    return False


def _is_network(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in (*NETWORK, *OURS))


@pytest.mark.proves("WB-1")
def test_every_module_that_speaks_to_the_network_belongs_to_a_way_out() -> None:
    speaking = [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if _connects(path)]
    unclaimed = [each for each in speaking if not each.startswith(("testing/", *MODULES))]
    assert unclaimed == [], "give each a line in MODULES, and a row in tests/ways_tables.py if none fits"
    idle = [each for each in MODULES if not any(path.startswith(each) for path in speaking)]
    assert idle == []
    used = {way for ways in MODULES.values() for way in ways} | {out for _, out in TOOLS.values() if out}
    assert used | {WayOut.ACTION, WayOut.FILE, WayOut.TOOL_SERVER} == set(WayOut), "each way has somebody who uses it"


@pytest.mark.proves("WB-1", "WB-2")
def test_the_guide_has_both_tables() -> None:
    page = PAGE.read_text()
    assert "\n".join(ways_in()) in page, "copy it from: python tests/ways_tables.py"
    assert "\n".join(ways_out()) in page, "copy it from: python tests/ways_tables.py"
