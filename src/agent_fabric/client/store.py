"""The store of a server: how it stands, and backups."""

import math

from agent_fabric.client.transport import Transport
from agent_fabric.client.wire import json_from
from agent_fabric.wire.shape import Json


class ServerStore:
    """Where a server keeps its runs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def status(self, *, check: bool = False) -> Json:
        """Tell how large the store is and what is in it; with `check`, look for damage in all of it."""
        answer = await self._transport.get("/api/v1/db", {"check": check}, timeout_s=math.inf)
        return await self._transport.understood(json_from("path", "runs", "damage"), answer)

    async def back_up(self, *, workspaces: bool = True) -> Json:
        """Let the server write a backup into its own folder; tell where that is: `path`, `size_bytes`, `files`.

        Raises:
            ServerBusy: one is being made already.
            StoreFull, StoreUnavailable: it cannot be made.
        """
        answer = await self._transport.post("/api/v1/db/backup", {"workspaces": workspaces}, timeout_s=math.inf)
        return await self._transport.understood(json_from("path", "size_bytes", "files"), answer)
