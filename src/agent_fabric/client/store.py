"""The store of a server: how it stands, and backups."""

import math

from agent_fabric.client.transport import Resource
from agent_fabric.client.wire import json_from
from agent_fabric.wire.shape import Json


class ServerStore(Resource):
    """Where a server keeps its runs."""

    async def status(self, *, check: bool = False) -> Json:
        """Tell how large the store is and what is in it; with `check`, look for damage in all of it."""
        return await self._get(json_from("path", "runs", "damage"), "/api/v1/db", {"check": check}, timeout_s=math.inf)

    async def back_up(self, *, workspaces: bool = True) -> Json:
        """Let the server write a backup into its own folder; tell where that is: `path`, `size_bytes`, `files`.

        Raises:
            ServerBusy: one is being made already.
            StoreFull, StoreUnavailable: it cannot be made.
        """
        return await self._post(
            json_from("path", "size_bytes", "files"),
            "/api/v1/db/backup",
            {"workspaces": workspaces},
            timeout_s=math.inf,
        )
