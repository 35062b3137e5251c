"""Keeps servers running between runs, since starting one can take seconds, and reaches those that are elsewhere."""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from agent_fabric.application.ports.mcp import ServerConfinement, ServerProcess
from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.domain.errors import ToolServerUnavailable
from agent_fabric.infrastructure.sandbox.dropping import DEFAULT_UID, Owner, owner_for
from agent_fabric.infrastructure.tools.mcp.confinement import (
    TrustedServers,
    hidden_values,
    request_headers,
    secrets_for,
    server_environment,
)
from agent_fabric.infrastructure.tools.mcp.connection import Connection, ConnectionLost
from agent_fabric.infrastructure.tools.mcp.pins import content_hash, identity
from agent_fabric.infrastructure.tools.mcp.stdio import MAX_MESSAGE_BYTES, ProgramTransport, Window

_CONNECT_TIMEOUT_S: Final = 15.0
_STREAM_TIMEOUT_S: Final = 900.0
"""How long an open stream may be silent; each call has a time-out of its own."""


def sse_transport(url: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Any]:
    """Return the transport for a server that still speaks the older kind of HTTP."""
    return sse_client(
        url,
        headers=dict(headers),
        timeout=_CONNECT_TIMEOUT_S,
        sse_read_timeout=_STREAM_TIMEOUT_S,
        httpx_client_factory=_client,
    )


@asynccontextmanager
async def streamable_transport(url: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    """Enter the transport for a server at an address."""
    timeout = httpx2.Timeout(_CONNECT_TIMEOUT_S, read=_STREAM_TIMEOUT_S)
    async with (
        _client(dict(headers), timeout) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
    ):
        yield streams


def _client(
    headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity", **(headers or {})},
        timeout=timeout,
        auth=auth,
        event_hooks={"response": [_cap]},
    )


async def _cap(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.RemoteProtocolError("the answer is compressed, which was not asked for")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    endless = "text/event-stream" in response.headers.get("content-type", "")
    response.stream = _PacedBody(response.stream) if endless else _CappedBody(response.stream)


class _GuardedBody(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedBody(_GuardedBody):
    """A body that fails when it gets too long."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_MESSAGE_BYTES
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.RemoteProtocolError(f"the answer is longer than {MAX_MESSAGE_BYTES // 2**20} MiB")
            yield chunk


class _PacedBody(_GuardedBody):
    """A stream of events that fails when they come too fast; how long each may be is for the SDK to see to."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        window = Window()
        async for chunk in self._inner:
            window.messages += chunk.count(b"data:")
            if window.flooded(len(chunk)):
                raise httpx2.RemoteProtocolError("the server floods us with messages")
            yield chunk


class ServerPool:
    """One connection for each server and, where it sees one, workspace; shared by all runs of a process."""

    def __init__(
        self,
        *,
        confinement: ServerConfinement,
        folder: Path,
        environ: Mapping[str, str],
        resolve: Resolve | None = None,
    ) -> None:
        self._confinement = confinement
        self._trusted = TrustedServers(environ)
        self._folder = folder
        self._environ = environ
        self._resolve = resolve
        self._members: dict[str, PooledServer] = {}
        self._closed = False

    def member(self, server: MCPServerConfig, workspace: str) -> "PooledServer":
        """Return the place of a server in the pool; it is started when it is first connected.

        Raises:
            ConnectionLost: the pool is closed; nothing is started any more.
        """
        if self._closed:
            raise _leaving(server)
        seen = workspace if server.transport == "stdio" and server.workspace != "none" else ""
        key = hashlib.sha256(json.dumps([content_hash(server), seen]).encode()).hexdigest()
        member = self._members.get(key)
        if member is None:
            member = PooledServer(
                server, lambda: self._transport(server, seen), forget=lambda: self._members.pop(key, None)
            )
            self._members[key] = member
        return member

    def empty_workspace(self) -> str:
        """Return a workspace with nothing in it, for looking at a server that wants one."""
        folder = self._folder / "empty"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            raise ToolServerUnavailable(f"a folder for it cannot be made: {problem}") from None
        return str(folder)

    async def aclose(self) -> None:
        """End every server at once; none waits for another."""
        self._closed = True
        members = list(self._members.values())
        self._members.clear()
        await asyncio.gather(*(member.close() for member in members), return_exceptions=True)

    async def _transport(self, server: MCPServerConfig, workspace: str) -> AbstractAsyncContextManager[Any]:
        secrets = await secrets_for(server, self._environ, self._resolve)
        return await asyncio.to_thread(self._connect, server, workspace, secrets)  # looks at many files

    def _connect(
        self, server: MCPServerConfig, workspace: str, secrets: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Any]:
        if server.transport == "stdio":
            confinement = self._trusted if server.trusted else self._confinement
            launch = confinement.launch(self._process(server, workspace, secrets))
            return ProgramTransport(launch, secrets=hidden_values(secrets))
        assert server.url is not None
        connect = streamable_transport if server.transport == "http" else sse_transport
        return connect(server.url, request_headers(server, secrets))

    def _process(self, server: MCPServerConfig, workspace: str, secrets: Mapping[str, str]) -> ServerProcess:
        owner = owner_for(Path(workspace)) if workspace else Owner(DEFAULT_UID, DEFAULT_UID)
        return ServerProcess(
            program=self._program(server),
            args=tuple(word.replace("{workspace}", workspace) for word in server.command[1:]),
            env=server_environment(server, secrets),
            home=self._home(server, owner),
            uid=owner.uid,
            gid=owner.gid,
            network=server.network,
            workspace=workspace,
            workspace_writable=server.workspace == "rw",
            folders=server.folders,
        )

    def _program(self, server: MCPServerConfig) -> str:
        name = os.path.expanduser(server.command[0])  # noqa: PTH111 - unlike Path.expanduser it cannot fail
        found = shutil.which(name, path=self._environ.get("PATH", os.defpath))
        if found is None:
            raise ToolServerUnavailable(
                f"there is no program {name!r}", hint="Install it, or fix `command` in its configuration."
            )
        return os.path.abspath(found)  # noqa: PTH100 - links stay: a virtual environment is known by them

    def _home(self, server: MCPServerConfig, owner: Owner) -> Path:
        """Return a folder of the server's own; root keeps one for each user that it runs the server as."""
        dropped = os.getuid() == 0 and not server.trusted
        other = f"-{owner.uid}" if dropped and owner.uid != DEFAULT_UID else ""
        home = self._folder / "servers" / f"{server.name}-{identity(server)[:12]}{other}"
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            if dropped and home.stat().st_uid != owner.uid:
                os.chown(home, *owner)
        except OSError as problem:
            raise ToolServerUnavailable(f"its own folder cannot be made: {problem}") from None
        return home


class PooledServer:
    """A server that is started when it is needed, again when it died, and ended when no one has used it for a while."""

    def __init__(
        self,
        server: MCPServerConfig,
        transport: Callable[[], Awaitable[AbstractAsyncContextManager[Any]]],
        *,
        forget: Callable[[], object],
    ) -> None:
        """Take what makes a fresh transport, and what takes this out of the pool."""
        self._server = server
        self._transport = transport
        self._forget = forget
        self._connection: Connection | None = None
        self._starting = asyncio.Lock()
        self._users = 0
        self._idle: asyncio.Task[None] | None = None
        self._closed = False

    async def acquire(self) -> Connection:
        """Return the connection, and keep it until `release`.

        Raises:
            FabricError: the server cannot be started or reached.
        """
        self._users += 1
        try:
            return await self.connect()
        except BaseException:
            await self.release()
            raise

    async def connect(self) -> Connection:
        """Return a connection that is alive, opening one if need be."""
        async with self._starting:
            if self._closed:
                raise _leaving(self._server)
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None
            if self._connection is None or not self._connection.alive:
                await self._drop()
                return await self._open_connection()
            return self._connection

    async def release(self, *, keep: bool = True) -> None:
        """Give the connection back; after `idle_s` without users it is closed, or at once if it is not to be kept."""
        self._users -= 1
        if self._users > 0 or self._closed:
            return
        if not keep:
            self._forget()
            await self.close()
        elif self._connection is None:
            self._forget()
        elif self._idle is None:
            self._idle = asyncio.create_task(self._close_when_idle())

    async def close(self) -> None:
        """End the server now."""
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
        await self._drop()

    async def _close_when_idle(self) -> None:
        await asyncio.sleep(self._server.idle_s)
        async with self._starting:
            if self._users <= 0:
                self._idle = None
                self._closed = True
                self._forget()
                await self._drop()

    async def _open_connection(self) -> Connection:
        """Open a connection; a program that dies of being asked for the newer protocol is started for the older one."""
        try:
            return await self._open()
        except ConnectionLost:
            if self._server.transport != "stdio" or self._closed:
                raise
        await self._drop()
        return await self._open(older_only=True)

    async def _open(self, *, older_only: bool = False) -> Connection:
        transport = await self._transport()
        if self._closed:
            raise _leaving(self._server)
        self._connection = connection = Connection(
            self._server.name, transport, start_timeout_s=self._server.start_timeout_s, older_only=older_only
        )
        await connection.open()  # known already, so that `close` can end it
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _leaving(server: MCPServerConfig) -> ConnectionLost:
    return ConnectionLost(f"the tool server {server.name!r}: it is being closed")
