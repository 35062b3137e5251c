"""The table of dead letters. Their payload is sealed with the user's keys: it may hold what someone else sent."""

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.automation import DeadLetter, LetterKind
from agent_fabric.domain.errors import DeadLetterNotFound, DriverConflict
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.infrastructure.persistence.table import Codec, Table, begins_with
from agent_fabric.wire.json_codec import dump_json, load_json

if TYPE_CHECKING:
    from agent_fabric.domain.events import Event
    from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository

Runs = Callable[[], "SqlRunRepository"]
"""Opens the tables of runs, when one is to be created: they take their time."""


class LetterSeal:
    """Seals payloads with the keyring that also seals the keys of encrypted runs."""

    def __init__(self, keys: RunKeys) -> None:
        self._keys = keys

    def seal(self, payload: object) -> bytes:
        """Return a payload as it is stored."""
        return base64.b64encode(self._keys.keyring.seal(dump_json(payload)))

    def open(self, stored: bytes) -> Any:
        """Return a payload that was stored.

        Raises:
            FabricError: its key is not here.
        """
        return load_json(self._keys.keyring.unseal(base64.b64decode(stored)))

    def sealed_file(self, content: bytes) -> bytes:
        """Return a file as it is stored."""
        return self._keys.keyring.seal(content)

    def opened_file(self, stored: bytes) -> bytes:
        """Return a file that was stored.

        Raises:
            FabricError: its key is not here.
        """
        return self._keys.keyring.unseal(stored)


def letters_of(seal: LetterSeal) -> Table[DeadLetter]:
    """Return the table, with payloads that are sealed so."""
    sealed = Codec(lambda stored: seal.open(bytes(stored)), lambda payload: seal.seal(dict(payload)))
    return Table("dead_letters", DeadLetter, key="id", kind=Codec(LetterKind), payload=sealed)


def add_letter(connection: SqlConnection, letter: DeadLetter, seal: LetterSeal) -> None:
    """Keep a letter, in the caller's transaction."""
    letters_of(seal).add(connection, letter)


class SqlDeadLetters:
    """DeadLetters over the database."""

    def __init__(self, database: Database, seal: LetterSeal, runs: Runs) -> None:
        self._database = database
        self._letters = letters_of(seal)
        self._stored = self._letters.within(database)
        self._runs = runs

    async def add(self, letter: DeadLetter) -> None:
        await self._stored.add(letter)

    async def list(self, *, limit: int, everything: bool = False) -> Sequence[DeadLetter]:
        where = "" if everything else "WHERE status = 'dead' "
        return await self._stored.rows(f"{where}ORDER BY created_at DESC, id LIMIT ?", limit)

    async def find(self, letter_id: str) -> DeadLetter:
        begins = begins_with("id", letter_id)
        found = await self._stored.rows(f"WHERE {begins.sql} ORDER BY id LIMIT 2", *begins.values)
        if not letter_id or not found or (len(found) > 1 and found[0].id != letter_id):
            raise DeadLetterNotFound(
                f"There is no dead letter {letter_id!r}, or more than one begins so",
                hint="See them with `fabric dead list`.",
            )
        return found[0]

    async def start(self, letter: DeadLetter, run_id: RunId, created: "Event", *, by: str, now: float) -> bool:
        settled = {"status": "replayed", "settled_by": by, "settled_at": now, "outcome": run_id}
        noticed = "UPDATE happenings SET run_id = ?, reason = '' WHERE sensor = ? AND key = ? AND run_id IS NULL"
        happening = (letter.payload.get("sensor"), letter.payload.get("key"))

        def write(connection: SqlConnection) -> bool:
            self._letters.update(connection, settled, "id = ?", letter.id)
            try:
                self._runs().create_undriven(connection, run_id, created)
            except DriverConflict:
                return False
            if all(happening):
                connection.execute(noticed, (run_id, *(storable(str(each)) for each in happening)))
            return True

        return await self._database.write(write)

    async def settle(self, letter: DeadLetter, *, status: str, by: str, outcome: str, now: float) -> bool:
        changes = {"status": status, "settled_by": by, "settled_at": now, "outcome": outcome}
        return bool(await self._stored.update(changes, "id = ? AND status = ?", letter.id, letter.status))
