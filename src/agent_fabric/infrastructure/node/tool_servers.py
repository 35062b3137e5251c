"""Tool servers of the machine (MCP over standard input and output): started when first asked, ended when idle.

Which there are, `mcp_config.json` in the node's folder says. Nothing of a server's environment leaves the machine.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import count
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.node import FloorProblem
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.fleet.protocol import canonical
from agent_fabric.infrastructure.node.processes import MARK, Commands, kill_tree

FILE: Final = "mcp_config.json"
PROTOCOL: Final = "2025-06-18"
START_TIMEOUT_S: Final = 30.0
IDLE_S: Final = 300.0
MAX_ANSWER_BYTES: Final = 600_000
"""Longer answers do not fit into one message to the hub."""
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ServerProblem(Exception):
    """A tool server cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """How a tool server is started."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_servers(path: Path) -> Sequence[ServerEntry]:
    """Read the file; without one there are no servers.

    Raises:
        FloorProblem: it cannot be used.
    """
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as problem:
        raise FloorProblem(f"{path} cannot be read: {problem}") from None
    servers = plain.get("mcpServers") if isinstance(plain, dict) else None
    if not isinstance(servers, dict):
        raise FloorProblem(f"{path}: `mcpServers` is missing")
    return tuple(_entry(path, name, each) for name, each in servers.items())


def _entry(path: Path, name: str, plain: Any) -> ServerEntry:
    if not _NAME.fullmatch(name):
        raise FloorProblem(f"{path}: {name[:80]!r} cannot be a server's name: use letters, digits, - and _")
    command, args, env = (
        (plain.get(key) for key in ("command", "args", "env")) if isinstance(plain, dict) else [None] * 3
    )
    if not isinstance(command, str) or not command:
        raise FloorProblem(f"{path}: {name} has no `command`; a node uses servers that it starts itself")
    args, env = [] if args is None else args, {} if env is None else env
    texts = (
        isinstance(args, list)
        and isinstance(env, dict)
        and all(isinstance(each, str) for each in (*args, *env.values()))
    )
    if not texts:
        raise FloorProblem(f"{path}: `args` and `env` of {name} hold texts")
    return ServerEntry(name, command, tuple(args), dict(env))


class ToolServers:
    """All tool servers of a node."""

    def __init__(
        self,
        entries: Sequence[ServerEntry],
        commands: Commands,
        pins: Callable[[], Mapping[str, str]],
        pin: Callable[[Mapping[str, str]], None],
    ) -> None:
        """Start nothing yet.

        Args:
            entries: How each is started.
            commands: As which user, and with which usual environment.
            pins: Returns the hashes of tools as they were first seen, by `SERVER.tool`.
            pin: Keeps them durably.
        """
        self._servers = {entry.name: _Server(entry, commands) for entry in entries}
        self._pins = pins
        self._pin = pin

    def describe(self) -> list[dict[str, Any]]:
        """Return what the hub is told (FC-061): names, and nothing of how they are started."""
        return [{"name": name, "transport": "stdio"} for name in self._servers]

    async def request(self, target: str, inner: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Hand on a request and return the server's answer, with the id of the request.

        Raises:
            ServerProblem: there is no such server, it cannot be started, does not answer, or a tool has changed.
        """
        server = self._servers.get(target)
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise ServerProblem(f"there is no tool server {target!r} on this node; it has: {known}")
        async with asyncio.timeout(timeout_s):
            if inner.get("method") == "tools/call":
                await self._require_pinned(target, server, inner)
            answer = await server.request(inner)
            if inner.get("method") == "tools/list":
                self._note(target, answer.get("result"))
        if len(canonical(answer)) > MAX_ANSWER_BYTES:
            raise ServerProblem(f"the answer of {target} is too long for one message")
        return answer

    async def _require_pinned(self, target: str, server: "_Server", inner: Mapping[str, Any]) -> None:
        params = inner.get("params")
        name = params.get("name") if isinstance(params, Mapping) else None
        if not isinstance(name, str):
            raise ServerProblem("tools/call names no tool")
        tools = await server.tools()
        self._note(target, {"tools": tools})
        found = next((tool for tool in tools if tool.get("name") == name), None)
        if found is None:
            raise ServerProblem(f"{target} has no tool {name[:100]!r}")
        if self._pins().get(f"{target}.{name}") != tool_hash(found):
            raise ServerProblem(
                f"the tool {target}.{name} is described otherwise than when it was first seen; "
                f"look at it, then on the machine: fabric-node trust {target}"
            )

    def _note(self, target: str, told: Any) -> None:
        """Pin tools that were never seen before; those that have changed stay as they were."""
        listed = told.get("tools") if isinstance(told, Mapping) else None
        seen = {f"{target}.{t['name']}": tool_hash(t) for t in listed or () if isinstance(t, dict) and "name" in t}
        known = dict(self._pins())
        if seen.keys() - known.keys():
            self._pin({**seen, **known})

    async def end_idle(self) -> None:
        """End servers that no one has asked for a while."""
        for server in self._servers.values():
            await server.end_if_idle()

    async def close(self) -> None:
        for server in self._servers.values():
            await server.end()


def tool_hash(tool: Mapping[str, Any]) -> str:
    """Return what names exactly this description of a tool: everything that a model reads of it."""
    told = [tool.get(key) for key in ("name", "title", "description", "inputSchema", "outputSchema", "annotations")]
    return hashlib.sha256(canonical(told)).hexdigest()


class _Server:
    """One tool server: at most one process."""

    def __init__(self, entry: ServerEntry, commands: Commands) -> None:
        self._entry = entry
        self._commands = commands
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = count(1)
        self._starting = asyncio.Lock()
        self._introduced: dict[str, Any] = {}
        self._tools: list[dict[str, Any]] | None = None
        self._used_at = 0.0

    async def request(self, inner: Mapping[str, Any]) -> dict[str, Any]:
        await self._start()
        if inner["method"] == "initialize":
            return {"jsonrpc": "2.0", "id": inner.get("id"), "result": self._introduced}
        if "id" not in inner:
            await self._send({**inner})
            return {"jsonrpc": "2.0"}
        answer = await self._ask(str(inner["method"]), inner.get("params"))
        return {**answer, "id": inner["id"]}

    async def tools(self) -> list[dict[str, Any]]:
        """Return all tools, as this process of the server describes them."""
        await self._start()
        if self._tools is None:
            found: list[dict[str, Any]] = []
            cursor: Any = None
            while True:
                answer = await self._ask("tools/list", {} if cursor is None else {"cursor": cursor})
                result = answer.get("result")
                if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
                    raise ServerProblem(f"{self._entry.name} does not list its tools")
                found += [each for each in result["tools"] if isinstance(each, dict)]
                cursor = result.get("nextCursor")
                if cursor is None or len(found) > 10_000:
                    break
            self._tools = found
        return self._tools

    async def end_if_idle(self) -> None:
        idle = asyncio.get_running_loop().time() - self._used_at > IDLE_S
        if self._process is not None and idle and not self._waiting:
            await self.end()

    async def end(self) -> None:
        process, self._process = self._process, None
        if self._reading is not None:
            self._reading.cancel()
        if process is not None:
            kill_tree(process.pid, self._mark)
            await process.wait()
        self._lose("the server was ended")

    @property
    def _mark(self) -> str:
        return f"{self._commands.instance}/mcp-{self._entry.name}"

    async def _start(self) -> None:
        async with self._starting:
            self._used_at = asyncio.get_running_loop().time()
            if self._process is not None and self._process.returncode is None:
                return
            self._tools = None
            await self.end()
            try:
                self._process = await self._commands.start_server(
                    [self._entry.command, *self._entry.args], {**self._entry.env, MARK: self._mark}, MAX_LINE_BYTES
                )
            except OSError as problem:  # without its file: how a server is started is not the hub's business
                why = problem.strerror or type(problem).__name__
                raise ServerProblem(f"{self._entry.name} could not be started ({why}): see mcp_config.json") from None
            self._reading = asyncio.create_task(self._read(self._process))
            about = {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "fabric-node", "version": "1"},
            }
            try:
                async with asyncio.timeout(START_TIMEOUT_S):
                    answer = await self._ask("initialize", about)
                    await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            except TimeoutError:
                await self.end()
                raise ServerProblem(f"{self._entry.name} did not answer within {START_TIMEOUT_S:g} s") from None
            result = answer.get("result")
            self._introduced = result if isinstance(result, dict) else {}

    async def _ask(self, method: str, params: Any) -> dict[str, Any]:
        number = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            asked = {"jsonrpc": "2.0", "id": number, "method": method}
            await self._send(asked if params is None else {**asked, "params": params})
            return await answer
        finally:
            self._waiting.pop(number, None)
            self._used_at = asyncio.get_running_loop().time()

    async def _send(self, message: Mapping[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise ServerProblem(f"{self._entry.name} has ended")
        try:
            process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise ServerProblem(f"{self._entry.name} has ended") from None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        why = "it has ended"
        try:
            while line := await process.stdout.readline():
                await self._take(line)
        except ValueError:
            why = f"it sent a message of more than {MAX_LINE_BYTES:,} bytes"
            kill_tree(process.pid, self._mark)
        self._lose(why)

    async def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return  # servers print things that are no messages
        if not isinstance(message, dict):
            return
        if "method" in message:
            if "id" in message:  # it asks us for something: no one here answers for a person or a model
                error = {"code": -32601, "message": "not supported here"}
                await self._send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            elif message["method"] == "notifications/tools/list_changed":
                self._tools = None
            return
        number = message.get("id")
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _lose(self, why: str) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ServerProblem(f"{self._entry.name} does not answer: {why}"))
