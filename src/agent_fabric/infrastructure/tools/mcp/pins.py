"""Remembers what each server said about its tools, so that a later change is noticed before a model reads it."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from agent_fabric.config.schema.mcp import MCPServerConfig
from agent_fabric.infrastructure.tools.mcp.identity import identity
from agent_fabric.infrastructure.tools.mcp.shared_json_file import SharedJsonFile
from agent_fabric.infrastructure.tools.mcp.tool_conversion import ListedTool

_MAX_KEPT_CHARS = 20_000


class PinState(StrEnum):
    """What is known about a tool."""

    PINNED = "pinned"
    """It is as it was when it was trusted."""
    NEW = "new"
    """The server did not have it when it was trusted."""
    CHANGED = "changed"
    """Its description or its arguments are not what they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The tools of a server, beside what was pinned."""

    states: Mapping[str, PinState]
    first_use: bool = False
    """Nothing was known of the server: its tools have been pinned now."""
    gone: tuple[str, ...] = field(default=())
    """Pinned tools that the server no longer has."""


class Pins:
    """The descriptions and schemas that were seen first, or trusted since: a file of the user's for each server."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pins"

    def check(self, server: MCPServerConfig, tools: Sequence[ListedTool]) -> Checked:
        """Compare a server's tools with what is pinned; the first time, pin them.

        Raises:
            ToolServerUnavailable: the pins cannot be read or written.
        """
        file = self._file(server)
        known = file.read()
        if not known:
            with file.changing() as content:
                if not content:
                    content.update(_pinned(server, tools))
                    return Checked(states={tool.name: PinState.PINNED for tool in tools}, first_use=True)
                known = content  # another process was faster
        return _compared(known, tools)

    def look(self, server: MCPServerConfig, tools: Sequence[ListedTool]) -> Checked:
        """Compare without pinning anything."""
        known = self._file(server).read()
        if not known:
            return Checked(states={tool.name: PinState.NEW for tool in tools}, first_use=True)
        return _compared(known, tools)

    def count(self, server: MCPServerConfig) -> int | None:
        """Return how many tools of a server are pinned; None: nothing is known of it."""
        known = self._file(server).read()
        return len(_tools_of(known)) if known else None

    def differences(self, server: MCPServerConfig, tools: Sequence[ListedTool]) -> list[str]:
        """Return, line by line, how the tools differ from what is pinned."""
        known = _tools_of(self._file(server).read())
        lines: list[str] = []
        for tool in tools:
            before, after = known.get(tool.name), _entry(tool)
            if before is None or before.get("digest") != tool.digest:
                names = f"{tool.name} (trusted)", f"{tool.name} (now)"
                shown = difflib.unified_diff(_text(before or {}), _text(after), *names, lineterm="")
                lines += list(shown) or [f"{tool.name} differs where it is too long to be shown"]
        names_now = {tool.name for tool in tools}
        lines += [f"{name} is gone" for name in known if name not in names_now]
        return lines

    def trust(self, server: MCPServerConfig, tools: Sequence[ListedTool]) -> None:
        """Pin a server's tools as they are now."""
        with self._file(server).changing() as content:
            content.clear()
            content.update(_pinned(server, tools))

    def _file(self, server: MCPServerConfig) -> SharedJsonFile:
        return SharedJsonFile(self._folder / f"{server.name}-{identity(server)[:32]}.json")


def _pinned(server: MCPServerConfig, tools: Sequence[ListedTool]) -> dict[str, Any]:
    return {"name": server.name, "tools": {tool.name: _entry(tool) for tool in tools}}


def _entry(tool: ListedTool) -> dict[str, Any]:
    """Return what is kept of a tool: what identifies it, and as much as people will read of a difference."""
    schema = json.dumps(tool.schema, indent=2, sort_keys=True, ensure_ascii=False)
    return {
        "digest": tool.digest,
        "description": tool.description[:_MAX_KEPT_CHARS],
        "schema": schema[:_MAX_KEPT_CHARS],
    }


def _tools_of(known: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    tools = known.get("tools")
    if not isinstance(tools, dict) or not all(isinstance(entry, dict) for entry in tools.values()):
        return {}  # not what we wrote: nothing of it counts as trusted
    return tools


def _compared(known: Mapping[str, Any], tools: Sequence[ListedTool]) -> Checked:
    pinned = _tools_of(known)
    states = {}
    for tool in tools:
        if tool.name not in pinned:
            states[tool.name] = PinState.NEW
        elif pinned[tool.name].get("digest") != tool.digest:
            states[tool.name] = PinState.CHANGED
        else:
            states[tool.name] = PinState.PINNED
    return Checked(states=states, gone=tuple(name for name in pinned if name not in states))


def _text(entry: Mapping[str, Any]) -> list[str]:
    return [*str(entry.get("description", "")).splitlines(), *str(entry.get("schema", "")).splitlines()]
