"""The tools of a node: what they take, and what they do to the machine. Hub and node judge calls by this table."""

from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.domain.fleet.protocol import SHELL_IDLE_S
from agent_fabric.domain.fleet.served_tools import MCP_PROXY
from agent_fabric.domain.tools.specs import Effect, ToolSpec, Trust, object_schema

RUN_COMMAND: Final = "run_command"
FILE_PUT: Final = "file_put"
FILE_GET: Final = "file_get"
TRANSFERS: Final = frozenset({FILE_PUT, FILE_GET})
"""They open a transfer of exactly one file, whose content follows in chunks. Only if the node's own file allows it."""
SHELL: Final = "shell"
"""A shell for one person, at a terminal. Only if the node's own file allows it; each session is an approval."""
FOR_PEOPLE: Final = frozenset({*TRANSFERS, SHELL})
"""Calls that need someone at the other end while they last: no agent, plan or schedule makes them."""
UPGRADE: Final = "upgrade"
"""Replaces the node's own program. Only if the node's own file names release keys."""
NOT_FOR_AGENTS: Final = frozenset({*FOR_PEOPLE, UPGRADE})
MAX_TRANSFER_BYTES: Final = 4 * 1024**3
_TEXT: Final[Mapping[str, Any]] = {"type": "string"}


def _tool(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    *,
    required: tuple[str, ...] = (),
    effect: Effect = Effect.READS,
    command_argument: str = "",
    path_arguments: tuple[str, ...] = (),
) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        parameters=object_schema(properties, required),
        effect=effect,
        command_argument=command_argument,
        path_arguments=path_arguments,
        trust=Trust.NODE,
    )


_PATH: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 4095, "description": "Absolute path."}
_FOLDER: Final[Mapping[str, Any]] = {"type": "string", "maxLength": 4095, "description": "Folder to begin in."}
_TIMEOUT: Final[Mapping[str, Any]] = {"type": "number", "exclusiveMinimum": 0, "maximum": 21_600}
_SHA256: Final[Mapping[str, Any]] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}

NODE_TOOLS: Final[Mapping[str, ToolSpec]] = {
    spec.name: spec
    for spec in (
        _tool(
            RUN_COMMAND,
            "Run a shell command on the machine.",
            {
                "command": {"type": "string", "minLength": 1, "maxLength": 100_000},
                "cwd": _FOLDER,
                "environment": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "maxProperties": 100,
                    "description": "Variables beyond the usual ones.",
                },
                "timeout_s": _TIMEOUT,
            },
            required=("command",),
            effect=Effect.LEAVES_SANDBOX,
            command_argument="command",
            path_arguments=("cwd",),
        ),
        _tool("list_files", "List a folder.", {"path": _PATH}, required=("path",), path_arguments=("path",)),
        _tool(
            "read_file",
            "Read a file.",
            {
                "path": _PATH,
                "offset": {"type": "integer", "minimum": 0},
                "max_bytes": {"type": "integer", "minimum": 1, "maximum": 262_144},
            },
            required=("path",),
            path_arguments=("path",),
        ),
        _tool(
            "write_file",
            "Write a file, whole or not at all.",
            {"path": _PATH, "content": {"type": "string", "maxLength": 700_000}},
            required=("path", "content"),
            effect=Effect.LEAVES_SANDBOX,
            path_arguments=("path",),
        ),
        _tool("system_info", "Tell how the machine is: load, memory, disks, time since it was started.", {}),
        _tool(
            "processes",
            "List processes, those with the most memory first.",
            {"limit": {"type": "integer", "minimum": 1, "maximum": 500}, "match": _TEXT},
        ),
        _tool(
            "services",
            "List the services of systemd and how they fare.",
            {"match": _TEXT, "failed_only": {"type": "boolean"}},
        ),
        _tool(
            "journal",
            "Read the newest lines of the system's journal.",
            {
                "unit": {"type": "string", "pattern": "^[A-Za-z0-9@._:-]{1,200}$"},
                "lines": {"type": "integer", "minimum": 1, "maximum": 2_000},
                "since": {"type": "string", "pattern": "^[A-Za-z0-9 :.+-]{1,40}$"},
            },
        ),
        _tool(
            FILE_PUT,
            "Replace a file by one of exactly this size and SHA-256, whose content follows.",
            {
                "path": _PATH,
                "size": {"type": "integer", "minimum": 0, "maximum": MAX_TRANSFER_BYTES},
                "sha256": _SHA256,
            },
            required=("path", "size", "sha256"),
            effect=Effect.LEAVES_SANDBOX,
            path_arguments=("path",),
        ),
        _tool(
            FILE_GET, "Open a file to be copied whole.", {"path": _PATH}, required=("path",), path_arguments=("path",)
        ),
        _tool(
            SHELL,
            "Open a shell at a terminal; what it prints is recorded.",
            {
                "cwd": _FOLDER,
                "columns": {"type": "integer", "minimum": 1, "maximum": 1_000},
                "rows": {"type": "integer", "minimum": 1, "maximum": 1_000},
                "term": {"type": "string", "pattern": "^[A-Za-z0-9._+-]{1,64}$"},
                "idle_s": {"type": "number", "exclusiveMinimum": 0, "maximum": SHELL_IDLE_S},
                "timeout_s": _TIMEOUT,
            },
            effect=Effect.LEAVES_SANDBOX,
            path_arguments=("cwd",),
        ),
        _tool(
            UPGRADE,
            "Replace the node's program by a release that one of the node's release keys has signed.",
            {
                "version": {"type": "string", "minLength": 1, "maxLength": 64},
                "sha256": _SHA256,
                "released_at": {"type": "integer", "minimum": 1},
                "signature": {"type": "string", "minLength": 1, "maxLength": 4_000},
                "timeout_s": _TIMEOUT,
            },
            required=("version", "sha256", "released_at", "signature"),
            effect=Effect.LEAVES_SANDBOX,
        ),
        _tool(
            MCP_PROXY,
            "Send a request to an MCP server of the machine, such as tools/list or tools/call.",
            {
                "target_server": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
                "inner_request": {
                    "type": "object",
                    "properties": {
                        "jsonrpc": {"type": "string", "enum": ["2.0"]},
                        "method": {"type": "string", "minLength": 1, "maxLength": 200},
                        "params": {"type": "object"},
                    },
                    "required": ["jsonrpc", "method"],
                },
                "timeout_s": _TIMEOUT,
            },
            required=("target_server", "inner_request"),
            effect=Effect.LEAVES_SANDBOX,
        ),
    )
}
"""By name (FC-060)."""
