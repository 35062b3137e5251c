"""The table of files that came on channels and are not in a workspace yet."""

from collections.abc import Sequence

from agent_fabric.domain.channels.files import StoredFile
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal
from agent_fabric.infrastructure.persistence.sql import Database, storable


class SqlInboundFiles:
    """InboundFiles over the database: whichever server begins the turn finds them."""

    def __init__(self, database: Database, seal: LetterSeal) -> None:
        self._database = database
        self._seal = seal

    async def put(self, run_id: RunId, files: Sequence[StoredFile], *, now: float) -> None:
        query = (
            "INSERT INTO channel_files (run_id, path, body, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (run_id, path) DO NOTHING"
        )
        rows = [(run_id, storable(each.path), self._seal.sealed_file(each.content), now) for each in files]
        await self._database.write(lambda connection: connection.executemany(query, rows))

    async def list(self, run_id: RunId) -> Sequence[StoredFile]:
        query = "SELECT path, body FROM channel_files WHERE run_id = ? ORDER BY path"
        rows = await self._database.read(lambda connection: connection.execute(query, (run_id,)).fetchall())
        return [StoredFile(str(path), self._seal.opened_file(bytes(body))) for path, body in rows]

    async def discard(self, run_id: RunId) -> None:
        query = "DELETE FROM channel_files WHERE run_id = ?"
        await self._database.write(lambda connection: connection.execute(query, (run_id,)).fetchall())
