"""The record of a server: whether it is whole, and taking old parts of it away."""

import math

from agent_fabric.client.transport import Query, Resource
from agent_fabric.client.wire import json_from
from agent_fabric.wire.shape import Json


class Audit(Resource):
    """What a server has recorded. Who did what within runs stands in their events."""

    async def verify(self, *, expect: str = "", shared: bool = False) -> Json:
        """Check that no event was changed, no log cut and no run removed unnoticed: `holds`, `damage`, `head`.

        `expect` is a head that was noted down before.
        """
        query: Query = {"expect": expect, "shared": shared}
        return await self._get(json_from("holds", "damage", "head"), "/api/v1/audit/verify", query, timeout_s=math.inf)

    async def acts(self, *, limit: int = 100) -> list[Json]:
        """Return what people did to the server itself, the newest first: `created_at`, `by`, `act`, `about`."""
        return await self._list("acts", "/api/v1/audit/acts", {"limit": limit})

    async def collect_garbage(self, *, older_than_s: float, keep: int = 0, dry_run: bool = False) -> Json:
        """Remove runs that settled longer ago than this, but for the newest `keep` of them; tell which."""
        body = {"older_than_s": older_than_s, "keep": keep, "dry_run": dry_run}
        return await self._post(json_from("removed", "freed_bytes"), "/api/v1/gc", body, timeout_s=math.inf)
