"""Tables that tools keep in a run's workspace."""

import asyncio
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.research_tables import Row, table_rows, table_text
from agent_fabric.domain.ids import RunId

MAX_TABLE_BYTES = 20_000_000

_locks: WeakValueDictionary[tuple[RunId, str], asyncio.Lock] = WeakValueDictionary()
"""One for each table of each run. One process drives a run with all its lanes, so there is no other writer."""


@dataclass(frozen=True, slots=True)
class WorkspaceTable:
    """A CSV file in the workspace that only tools write."""

    sandbox: Sandbox
    name: str
    columns: Sequence[str]

    async def change(self, run_id: RunId, edit: Callable[[Sequence[Row]], list[Row]]) -> int:
        """Let `edit` make the table's new rows of its rows; return how many there are.

        Raises:
            OSError: the file cannot be read or written; ValueError: it has grown too large.
        """
        async with _locks.setdefault((run_id, self.name), asyncio.Lock()):
            before = await self._rows()
            after = edit(before or ())
            if after != before:
                text = table_text(self.columns, after)
                await self.sandbox.write_file(self.name, text.encode("utf-8", "replace"))
            return len(after)

    async def _rows(self) -> list[Row] | None:
        """Return the rows; None if there is no table yet. Another file in its place is moved aside."""
        try:
            data, size = await self.sandbox.read_file(self.name, max_bytes=MAX_TABLE_BYTES)
        except FileNotFoundError:
            return None
        if size > len(data):
            raise ValueError(f"{self.name} has grown too large: {size} bytes")
        rows = table_rows(self.columns, data.decode("utf-8", "replace"))
        if rows is None:
            await self.sandbox.write_file(await self._unused_name(), data)
        return rows

    async def _unused_name(self) -> str:
        """Return where to move what is in the table's place; never over something that was moved before."""
        name, number = f"{self.name}.replaced", 1
        while await self._exists(name):
            number += 1
            name = f"{self.name}.replaced.{number}"
        return name

    async def _exists(self, name: str) -> bool:
        try:
            await self.sandbox.read_file(name, max_bytes=1)
        except FileNotFoundError:
            return False
        except IsADirectoryError:
            pass
        return True
