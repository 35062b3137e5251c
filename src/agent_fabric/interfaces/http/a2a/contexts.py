"""Conversations: which run was the newest in each."""

import asyncio
from collections import OrderedDict

from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId

REMEMBERED = 10_000
"""Conversations."""
LOOKED_AT = 2_000
"""Runs of servers before us; conversations that have none among them begin anew."""


class Contexts:
    """Knows the conversations that callers lead. Each run says which one it belongs to; this is only where to look."""

    def __init__(self, fabric: ServerFabric) -> None:
        self._fabric = fabric
        self._newest: OrderedDict[str, RunId] = OrderedDict()
        self._lock = asyncio.Lock()
        self._has_looked = False

    def remember(self, context_id: str, run_id: RunId) -> None:
        """Note that a conversation continues in a run."""
        self._newest[context_id] = run_id
        self._newest.move_to_end(context_id)
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)

    async def newest(self, context_id: str, *, by: Principal) -> RunId | None:
        """Return the run that a conversation continues from, if there is any.

        A run that belongs to none is one by itself, of the same id.
        """
        if context_id not in self._newest:
            await self._look()
        found = self._newest.get(context_id)
        if found is not None:
            return found
        try:
            run_id = await self._fabric.find(context_id, by=by)
        except RunNotFound:
            return None
        return run_id if run_id == context_id else None

    async def _look(self) -> None:
        """Learn from the runs themselves, once."""
        async with self._lock:
            if self._has_looked:
                return
            for record in await self._fabric.catalogue.recent(limit=LOOKED_AT):  # the newest first
                if record.conversation:
                    self._newest.setdefault(record.conversation, record.run_id)
            self._has_looked = True
