"""One live connection to a server."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

import mcp_types
from anyio import BrokenResourceError, ClosedResourceError
from httpx2 import HTTPError
from mcp import Client, MCPError
from pydantic import RootModel, ValidationError

from agent_fabric import __version__
from agent_fabric.domain.errors import FabricError, ToolServerUnavailable
from agent_fabric.domain.identity.principals import RUN_META
from agent_fabric.infrastructure.tools.mcp.stdio import ProgramTransport
from agent_fabric.infrastructure.tools.mcp.tool_conversion import MAX_TOOLS, ListedTool, clean_text

# The SDK's warnings quote what servers send, and without a handler they would go to the terminal.
logging.getLogger("mcp").setLevel(logging.CRITICAL)

OURS: Final = "agent-fabric"
MAX_CALLS_AT_ONCE: Final = 16
_MAX_PAGES: Final = 20
_MAX_ERROR_CHARS: Final = 2_000
_CLOSE_S: Final = 8.0
_NEGOTIATION_SHARE: Final = 1 / 3
_NEGOTIATION_S: Final = 10.0
"""A server of the older generation that leaves the newer one's question open may cost this much of the start."""


class _Raw(RootModel[dict[str, Any]]):
    """An answer as it came."""


class ConnectionLost(ToolServerUnavailable):
    """The server went away while, or before, it worked on a request."""


class Connection:
    """A session with a server. A task of its own holds it open, since the SDK wants to be left where it was entered."""

    def __init__(
        self,
        name: str,
        transport: AbstractAsyncContextManager[Any],
        *,
        start_timeout_s: float,
        older_only: bool = False,
    ) -> None:
        """Take how to reach the server; `older_only` does not ask it for the newer generation of the protocol."""
        self._name = name
        self._mode = "legacy" if older_only else "auto"
        self._transport = transport
        self._start_timeout_s = start_timeout_s
        self._closing = asyncio.Event()
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._slots = asyncio.Semaphore(MAX_CALLS_AT_ONCE)
        self._lost = False
        self.start_s = 0.0
        """How long it took to start."""

    @property
    def alive(self) -> bool:
        """Whether it can still be used, as far as we know."""
        return self._client is not None and not self._lost and not self._end_reason()

    @property
    def protocol(self) -> str:
        """The version of the protocol that was agreed on."""
        return "" if self._client is None else str(self._client.protocol_version)

    @property
    def is_ours(self) -> bool:
        """Whether it calls itself agent-fabric. Another server that does so only learns the ids of runs."""
        info = None if self._client is None else self._client.server_info
        return info is not None and info.name == OURS

    @property
    def server_info(self) -> str:
        """What the server calls itself."""
        info = None if self._client is None else self._client.server_info
        return "" if info is None else clean_text(f"{info.name} {info.version}", 200)

    async def open(self) -> None:
        """Start the server, or connect to it, and agree on a version.

        Raises:
            ToolServerUnavailable: it does not start, answer or speak the protocol.
        """
        started = time.monotonic()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._hold(ready), name=f"mcp {self._name}")
        try:
            async with asyncio.timeout(self._start_timeout_s):
                await asyncio.shield(ready)
        except TimeoutError:
            await self.close()
            raise self._unavailable(f"it did not answer within {self._start_timeout_s:g} s") from None
        except asyncio.CancelledError:
            await self.close()
            raise
        self.start_s = time.monotonic() - started

    async def list_tools(self) -> Sequence[ListedTool]:
        """Ask the server what it offers today; of several tools with one name, only the first counts.

        Raises:
            ToolServerUnavailable: it does not answer, or not with a list of tools.
        """
        client = self._connect()
        found: dict[str, ListedTool] = {}
        cursor: str | None = None
        try:
            async with asyncio.timeout(self._start_timeout_s):
                for _ in range(_MAX_PAGES):
                    page = await client.session.list_tools(params=mcp_types.PaginatedRequestParams(cursor=cursor))
                    for tool in page.tools:
                        listed = ListedTool(
                            name=tool.name, description=tool.description or "", schema=tool.input_schema
                        )
                        found.setdefault(tool.name, listed)
                    cursor = page.next_cursor
                    if cursor is None or len(found) > MAX_TOOLS:
                        break
        except TimeoutError:
            raise self._unavailable("it did not list its tools in time") from None
        except Exception as problem:  # noqa: BLE001 - a server's answer can break the SDK in any way
            raise self._explain(problem) from None
        return list(found.values())

    async def call(self, tool: str, args: Mapping[str, Any], *, timeout_s: float, run_id: str) -> Mapping[str, Any]:
        """Call a tool for a run and return the answer as it came. A server of our own is told which run it is.

        Raises:
            ConnectionLost: the server went away; whether the call happened is not known.
            ToolServerUnavailable: it refused, was too slow, or answered nonsense.
        """
        client = self._connect()
        params: dict[str, Any] = {"name": tool, "arguments": dict(args)}
        if self.is_ours:
            params["_meta"] = {RUN_META: run_id}
        request = mcp_types.CallToolRequest(params=mcp_types.CallToolRequestParams.model_validate(params))
        async with self._slots:
            try:
                # Not `call_tool`: that would check the answer against the server's own schema, whose patterns can be
                # made to take forever.
                answer = await client.session.send_request(request, _Raw, request_read_timeout_seconds=timeout_s)
            except Exception as problem:  # noqa: BLE001 - a server's answer can break the SDK in any way
                raise self._explain(problem) from None
        return answer.root

    async def close(self) -> None:
        """End the session and the server's program. Never fails."""
        self._closing.set()
        if self._owner is None:
            return
        done, _ = await asyncio.wait((self._owner,), timeout=_CLOSE_S if self._client is not None else 0.0)
        if not done:
            self._owner.cancel()
            await asyncio.wait((self._owner,), timeout=_CLOSE_S)

    async def _hold(self, ready: "asyncio.Future[None]") -> None:
        client = Client(
            self._transport,
            cache=None,
            mode=self._mode,
            read_timeout_seconds=min(self._start_timeout_s * _NEGOTIATION_SHARE, _NEGOTIATION_S),
            client_info=mcp_types.Implementation(name=OURS, version=__version__),
        )
        try:
            async with client:
                self._client = client
                ready.set_result(None)
                await self._closing.wait()
        except asyncio.CancelledError:
            pass
        except BaseException as problem:  # noqa: BLE001 - handed to the waiting task; groups of errors too
            if not ready.done():
                ready.set_exception(self._explain(problem))
        finally:
            self._lost = True
            if not ready.done():
                ready.set_exception(self._unavailable("it was closed while it started"))
            with suppress(asyncio.CancelledError, Exception):
                ready.exception()  # seen, even if no one waits any more

    def _connect(self) -> Client:
        if self._client is None or not self.alive:
            raise ConnectionLost(self._sentence(self._end_reason() or "the connection is closed"))
        return self._client

    def _end_reason(self) -> str:
        return self._transport.ended if isinstance(self._transport, ProgramTransport) else ""

    def _explain(self, problem: BaseException) -> FabricError:
        """Return an error in our words for whatever the SDK raised."""
        while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
            problem = problem.exceptions[0]
        if isinstance(problem, FabricError):
            return problem
        if self._end_reason() or _is_lost(problem):
            self._lost = True
            return ConnectionLost(self._sentence(self._end_reason() or "the connection broke"))
        match problem:
            case MCPError() if problem.code == mcp_types.REQUEST_TIMEOUT:
                return self._unavailable("it did not answer in time")
            case MCPError():
                return self._unavailable(f"it said: {problem.message}")
            case ValidationError():
                return self._unavailable(
                    "its answer is not what the protocol asks for, or it asks for a person's input"
                )
            case _:
                return self._unavailable(f"{type(problem).__name__}: {problem}")

    def _unavailable(self, reason: str) -> ToolServerUnavailable:
        return ToolServerUnavailable(self._sentence(reason))

    def _sentence(self, reason: str) -> str:
        said = self._transport.last_words if isinstance(self._transport, ProgramTransport) else ""
        words = f"\nIts last output:\n{said}" if said and self._end_reason() else ""
        return f"the tool server {self._name!r}: {clean_text(reason, _MAX_ERROR_CHARS)}{words}"


def _is_lost(problem: BaseException) -> bool:
    match problem:
        case MCPError():
            closed = problem.code == mcp_types.CONNECTION_CLOSED and problem.message == "Connection closed"
            return closed or problem.message == "Session terminated"
        case ClosedResourceError() | BrokenResourceError() | HTTPError() | OSError():
            return True
        case _:
            return False
