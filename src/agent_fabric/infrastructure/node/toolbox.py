"""The registry of a node's tools (FC-060): what is in it can be called, and nothing else."""

import asyncio
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.binding import timeout_of
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS, SHELL, TRANSFERS, UPGRADE
from agent_fabric.domain.fleet.served_tools import MCP_PROXY
from agent_fabric.infrastructure.node import machine_facts
from agent_fabric.infrastructure.node.file_tools import MAX_READ_BYTES, NodeFiles
from agent_fabric.infrastructure.node.processes import Commands
from agent_fabric.infrastructure.node.terminals import Terminals
from agent_fabric.infrastructure.node.tool_servers import ServerProblem, ToolServers
from agent_fabric.infrastructure.node.transfers import Transfers
from agent_fabric.infrastructure.node.upgrades import Upgrades

_ASK_TIMEOUT_S: Final = 20.0
_MAX_OUTPUT_BYTES: Final = 700_000


@dataclass(slots=True)
class Toolbox:
    """NodeToolbox over this machine."""

    commands: Commands
    files: NodeFiles
    servers: ToolServers | None = None
    """None: the machine has no tool servers."""
    transfers: Transfers | None = None
    """None: the node's own file does not allow any."""
    terminals: Terminals | None = None
    """None: it does not allow shells."""
    upgrades: Upgrades | None = None
    """None: it names no release keys, or the node runs from no archive."""

    def names(self) -> Sequence[str]:
        absent = {
            *([] if self.servers and self.servers.describe() else [MCP_PROXY]),
            *([] if self.transfers else TRANSFERS),
            *([] if self.terminals else [SHELL]),
            *([] if self.upgrades else [UPGRADE]),
        }
        return tuple(name for name in NODE_TOOLS if name not in absent)

    async def run(self, execution_id: str, tool_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        started = time.monotonic()
        try:
            result = await self._run(execution_id, tool_name, arguments)
        except Exception as problem:  # noqa: BLE001 - whatever the machine does, the hub is told
            result = {"status": "error", "error": f"{type(problem).__name__}: {problem}"}
        result.setdefault("duration_ms", round((time.monotonic() - started) * 1000, 3))
        return _fitting(result)

    async def _run(self, execution_id: str, tool_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        match tool_name:
            case "run_command":
                return await self.commands.run(
                    execution_id,
                    arguments["command"],
                    cwd=arguments.get("cwd", ""),
                    environment=arguments.get("environment", {}),
                    timeout_s=timeout_of(arguments),
                )
            case "list_files":
                return await self.files.list(arguments["path"])
            case "read_file":
                most = int(arguments.get("max_bytes", MAX_READ_BYTES))
                return await self.files.read(arguments["path"], int(arguments.get("offset", 0)), most)
            case "write_file":
                return await self.files.write(arguments["path"], arguments["content"])
            case "system_info":
                return _describe(await asyncio.to_thread(machine_facts.system_info))
            case "processes":
                limit, match = int(arguments.get("limit", 50)), str(arguments.get("match", ""))
                return _describe(await asyncio.to_thread(machine_facts.processes, limit, match))
            case "file_put" | "file_get" if self.transfers is not None:
                return await self.transfers.open(execution_id, tool_name, arguments)
            case "shell" if self.terminals is not None:
                return await self.terminals.run(execution_id, arguments)
            case "upgrade" if self.upgrades is not None:
                return await self.upgrades.run(execution_id, arguments)
            case "mcp_proxy" if self.servers is not None:
                return await self._proxy(self.servers, arguments)
            case "services":
                return await self._services(execution_id, arguments)
            case _:
                return await self._journal(execution_id, arguments)

    async def _proxy(self, servers: ToolServers, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            answer = await servers.request(
                arguments["target_server"], arguments["inner_request"], timeout_of(arguments)
            )
        except ServerProblem as problem:
            return {"status": "error", "error": str(problem)}
        except TimeoutError:
            return {"status": "error", "error": f"the tool server took longer than {timeout_of(arguments):g} s"}
        result = answer.get("result")
        failed = "error" in answer or (isinstance(result, Mapping) and result.get("isError") is True)
        return {"status": "error" if failed else "success", "output": answer}

    async def _services(self, execution_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        words = ["systemctl", "list-units", "--type=service", "--all", "--no-pager", "--plain", "--output=json"]
        words += ["--state=failed"] if arguments.get("failed_only") else []
        asked = await self._ask(execution_id, words)
        if asked["status"] != "success":
            return asked
        units = []
        with suppress(ValueError):
            units = json.loads(asked["stdout"])
        match = str(arguments.get("match", ""))
        return _describe({"services": [each for each in units if match in str(each.get("unit", ""))]})

    async def _journal(self, execution_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        words = ["journalctl", "--no-pager", "--output=short-iso", f"--lines={int(arguments.get('lines', 100))}"]
        words += [f"--unit={arguments['unit']}"] if arguments.get("unit") else []
        words += [f"--since={arguments['since']}"] if arguments.get("since") else []
        return await self._ask(execution_id, words)

    async def _ask(self, execution_id: str, words: Sequence[str]) -> dict[str, Any]:
        return await self.commands.run(
            execution_id, shlex.join(words), cwd="/", environment={}, timeout_s=_ASK_TIMEOUT_S
        )


def _describe(output: dict[str, Any]) -> dict[str, Any]:
    return {"status": "success", "output": output}


def _fitting(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result that fits into one message."""
    if (
        len(json.dumps(result, ensure_ascii=False).encode("utf-8", "replace")) <= _MAX_OUTPUT_BYTES
        or "stdout" in result
    ):
        return result
    return {"status": "error", "error": "the answer is too long for one message; ask for less"}
