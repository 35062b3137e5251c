"""The tools that most packs share: files and shell, at work in a run's sandbox."""

from dataclasses import replace

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.infrastructure.tools.files import LIST_FILES, READ_FILE, WRITE_FILE, ListFiles, ReadFile, WriteFile
from agent_fabric.infrastructure.tools.shell import SHELL, RunShell
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction


def file_tools(sandbox: Sandbox) -> tuple[tuple[ToolSpec, ToolFunction], ...]:
    """Return read_file, write_file and list_files."""
    return (
        (READ_FILE, ReadFile(sandbox)),
        (WRITE_FILE, WriteFile(sandbox)),
        (LIST_FILES, ListFiles(sandbox)),
    )


def shell_tool(sandbox: Sandbox, *, timeout_s: float = SHELL.timeout_s) -> tuple[ToolSpec, ToolFunction]:
    """Return shell; the command policy judges every command line."""
    return replace(SHELL, timeout_s=timeout_s), RunShell(sandbox)
