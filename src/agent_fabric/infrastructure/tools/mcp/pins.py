"""Remembers which servers a person has agreed to, and what each said about its tools.

A later change is noticed before a model reads it. Both are small JSON files that several processes read and change.
"""

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.mcp import PinState
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable, ToolServerUnavailable
from agent_fabric.infrastructure.private_files import PrivateFile
from agent_fabric.infrastructure.tools.mcp.tool_conversion import ListedTool


def content_hash(server: MCPServerConfig) -> str:
    """Identify everything that the configuration says about a server; references to secrets stay references."""
    return _hash(server.model_dump(mode="json"))


def identity(server: MCPServerConfig) -> str:
    """Identify the program or address behind a server's name, whatever else is configured for it."""
    return _hash({"transport": server.transport, "command": server.command, "url": server.url})


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class SharedJsonFile:
    """A JSON object on disk with mode 0600; changes are atomic and made under a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = PrivateFile(path)

    def read(self) -> dict[str, Any]:
        """Return what it holds; nothing if there is no file yet.

        Raises:
            ToolServerUnavailable: it cannot be read. Going on as if it were empty would trust whatever comes.
        """
        try:
            data = self._file.read()
            found = {} if data is None else json.loads(data)
        except (StoreUnavailable, ValueError, RecursionError) as problem:
            raise self._unreadable(problem) from None
        if not isinstance(found, dict):
            raise self._unreadable("it is not what we wrote")
        return found

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Hold the file while its content is changed in place; it is written if that does not fail.

        Raises:
            ToolServerUnavailable: it cannot be read or written.
        """
        try:
            with self._file.hold():
                content = self.read()
                before = json.dumps(content, sort_keys=True)
                yield content
                if json.dumps(content, sort_keys=True) != before:
                    self._file.replace(json.dumps(content, indent=1, sort_keys=True).encode())
        except StoreUnavailable as problem:
            raise self._unreadable(problem) from None

    def _unreadable(self, reason: object) -> ToolServerUnavailable:
        return ToolServerUnavailable(
            f"what is known about tool servers cannot be read or written: {self.path}: {reason}",
            hint="Repair the file or its folder; removing the file means trusting every tool server again.",
        )


class ProjectServers:
    """The servers that a project's file asks for, and what a person said about them."""

    def __init__(self, folder: Path, asked_by: Mapping[str, str]) -> None:
        """Take the folder for what is remembered and, by `content_hash`, the project file that asks for a server."""
        self._file = SharedJsonFile(folder / "project-servers.json")
        self._asked_by = asked_by

    def file_of(self, server: MCPServerConfig) -> str:
        """Return the project's file that asks for a server; empty: the user's own configuration does."""
        return self._asked_by.get(content_hash(server), "")

    def agreed(self, server: MCPServerConfig) -> bool:
        """Tell whether it may be started or reached."""
        file = self.file_of(server)
        return not file or content_hash(server) in self._file.read().get(file, {})

    def agree(self, server: MCPServerConfig) -> None:
        """Remember that a person agreed to exactly this entry of exactly this file."""
        file = self.file_of(server)
        if file:
            with self._file.changing() as content:
                content.setdefault(file, {})[content_hash(server)] = server.name

    def require_agreed(self, server: MCPServerConfig) -> None:
        """Make sure that nothing is started because of a file that came with a project.

        Raises:
            ToolServerUnavailable: no one has agreed to it.
        """
        if not self.agreed(server):
            raise ToolServerUnavailable(
                f"the project's file {self.file_of(server)} asks for it, and you have not trusted it yet",
                hint=f"Look at the entry; if you want it: fabric mcp trust {server.name}",
            )


_MAX_KEPT_CHARS = 20_000


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
                    content.update(_read_pins(server, tools))
                    return Checked(states={tool.name: PinState.PINNED for tool in tools}, first_use=True)
                known = content  # another process was faster
        return _compare(known, tools)

    def look(self, server: MCPServerConfig, tools: Sequence[ListedTool]) -> Checked:
        """Compare without pinning anything."""
        known = self._file(server).read()
        if not known:
            return Checked(states={tool.name: PinState.NEW for tool in tools}, first_use=True)
        return _compare(known, tools)

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
            content.update(_read_pins(server, tools))

    def _file(self, server: MCPServerConfig) -> SharedJsonFile:
        return SharedJsonFile(self._folder / f"{server.name}-{identity(server)[:32]}.json")


def _read_pins(server: MCPServerConfig, tools: Sequence[ListedTool]) -> dict[str, Any]:
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


def _compare(known: Mapping[str, Any], tools: Sequence[ListedTool]) -> Checked:
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
