"""Tool servers that speak the Model Context Protocol, seen from packs."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.specs import ToolContext, ToolResult, ToolSpec


class PinState(StrEnum):
    """What is known about a tool."""

    PINNED = "pinned"
    """It is as it was when it was trusted."""
    NEW = "new"
    """The server did not have it when it was trusted."""
    CHANGED = "changed"
    """Its description or its arguments are not what they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """What became of one server when a pack opened."""

    server: str
    problem: str = ""
    """Why none of its tools can be had; empty: they can."""
    hint: str = ""
    """What to do about it."""
    protocol: str = ""
    """The version of the protocol that was agreed on."""
    offered: tuple[str, ...] = ()
    """Names of the tools that the model gets."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """The server's tools that the model does not get, each with the reason."""

    def notices(self) -> list[str]:
        """Say what a person should know; nothing if all is well."""
        if self.problem:
            return [f"The tool server {self.server!r} cannot be used: {self.problem}" + _after(self.hint)]
        by_reason: dict[str, list[str]] = {}
        for tool, reason in self.hidden.items():
            by_reason.setdefault(reason, []).append(tool)
        return [
            f"{len(tools)} tool{'s' * (len(tools) != 1)} of the server {self.server!r} not offered, {reason}: "
            f"{_some(tools)}"
            for reason, tools in by_reason.items()
        ]


class ServerTools(Protocol):
    """The tools of one connected server, for one pack."""

    @property
    def report(self) -> ServerReport:
        """What was found."""
        ...

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools on offer, under the names that the model knows."""
        ...

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Call a tool by the name that the model knows.

        Raises:
            KeyError: the server does not offer it.
            FabricError: the server is gone, was too slow, or answered nonsense.
        """
        ...

    async def release(self) -> None:
        """Say that the pack is done. The server itself may stay for the next one."""
        ...


class ToolServers(Protocol):
    """Connects packs with servers; a server that is running already is used again."""

    async def connect(self, server: MCPServerConfig, *, workspace: str, sandbox: Sandbox | None = None) -> ServerTools:
        """Return the tools of a server, starting it if need be; images and files that it sends go into the sandbox.

        Raises:
            FabricError: it cannot be used, with the reason.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A server's program, as it is to be started."""

    program: str
    """Absolute path."""
    args: tuple[str, ...]
    env: Mapping[str, str]
    """What the configuration gives it, with secrets in place."""
    home: Path
    """A folder of its own that it may write."""
    network: bool = False
    workspace: str = ""
    """Folder of the run's files; empty: it does not see it."""
    workspace_writable: bool = False
    uid: int = 64_000
    """Whom it runs as if we are root; never root itself."""
    gid: int = 64_000
    folders: tuple[Path, ...] = ()
    """Further folders that it may read."""


class ServerLaunch(NamedTuple):
    """What to execute so that a program runs confined."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment."""
    cwd: str
    syscall_filter: bytes = b""
    """A seccomp filter that the program finds as the file whose number stands for `SYSCALL_FILTER` in `argv`."""


SYSCALL_FILTER = "{syscall filter}"
"""The word of `argv` in whose place the number of the open filter is put."""


class ServerConfinement(Protocol):
    """Wraps a server's program into a box."""

    def launch(self, process: ServerProcess) -> ServerLaunch:
        """Return how to start it.

        Raises:
            FabricError: there is no box on this machine.
        """
        ...


def _after(hint: str) -> str:
    return f". {hint}" if hint else ""


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
