"""The tools that work in a run's sandbox: a new one gets a line in `workspace_tools`, and packs and agents have it."""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.infrastructure.tools.files import (
    EDIT_FILE,
    LIST_FILES,
    READ_FILE,
    WRITE_FILE,
    EditFile,
    ListFiles,
    ReadFile,
    WriteFile,
)
from agent_fabric.infrastructure.tools.search import SEARCH_FILES, SearchFiles
from agent_fabric.infrastructure.tools.shell import SHELL, RunShell
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction

Tools = Sequence[tuple[ToolSpec, ToolFunction]]


def workspace_tools(sandbox: Sandbox, *, shell_timeout_s: float = SHELL.timeout_s) -> Tools:
    """Return all of them, the shell first."""
    return (
        shell_tool(sandbox, timeout_s=shell_timeout_s),
        (READ_FILE, ReadFile(sandbox)),
        (WRITE_FILE, WriteFile(sandbox)),
        (EDIT_FILE, EditFile(sandbox)),
        (LIST_FILES, ListFiles(sandbox)),
        (SEARCH_FILES, SearchFiles(sandbox)),
    )


def file_tools(sandbox: Sandbox) -> tuple[tuple[ToolSpec, ToolFunction], ...]:
    """Return read_file, write_file and list_files."""
    return (READ_FILE, ReadFile(sandbox)), (WRITE_FILE, WriteFile(sandbox)), (LIST_FILES, ListFiles(sandbox))


def shell_tool(sandbox: Sandbox, *, timeout_s: float = SHELL.timeout_s) -> tuple[ToolSpec, ToolFunction]:
    """Return shell; the command policy judges every command line."""
    return replace(SHELL, timeout_s=timeout_s), RunShell(sandbox)
