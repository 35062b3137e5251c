"""The table of dead letters. Their payload is sealed with the user's keys: it may hold what somebody else sent."""

import base64
from collections.abc import Sequence
from typing import Any

from agent_fabric.application.ports.automation import DeadLetter, LetterKind
from agent_fabric.domain.errors import DeadLetterNotFound, DriverConflict
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_COLUMNS = "id, kind, source, reason, payload, created_at, status, settled_by, settled_at, outcome"
_LAST_CHARACTER = "\U0010ffff"


class LetterSeal:
    """Seals payloads with the keyring that also seals the keys of encrypted runs."""

    def __init__(self, keys: RunKeys) -> None:
        self._keys = keys

    def sealed(self, payload: object) -> bytes:
        """Return a payload as it is stored."""
        return base64.b64encode(self._keys.keyring.seal(dump_json(payload)))

    def opened(self, stored: bytes) -> Any:
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


def add_letter(connection: SqlConnection, letter: DeadLetter, seal: LetterSeal) -> None:
    """Keep a letter, in the caller's transaction."""
    values = (
        storable(letter.id),
        letter.kind,
        storable(letter.source),
        storable(letter.reason),
        seal.sealed(dict(letter.payload)),
        letter.created_at,
        letter.status,
    )
    connection.execute(
        "INSERT INTO dead_letters (id, kind, source, reason, payload, created_at, status)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        values,
    )


class SqlDeadLetters:
    """DeadLetters over the database."""

    def __init__(self, database: Database, seal: LetterSeal, runs: SqlRunRepository) -> None:
        self._database = database
        self._seal = seal
        self._runs = runs

    async def add(self, letter: DeadLetter) -> None:
        await self._database.write(lambda connection: add_letter(connection, letter, self._seal))

    async def list(self, *, limit: int, everything: bool = False) -> Sequence[DeadLetter]:
        where = "" if everything else " WHERE status = 'dead'"
        query = f"SELECT {_COLUMNS} FROM dead_letters{where} ORDER BY created_at DESC, id LIMIT ?"  # noqa: S608 - ours
        return await self._database.read(
            lambda connection: [self._letter(row) for row in connection.execute(query, (limit,)).fetchall()]
        )

    async def find(self, letter_id: str) -> DeadLetter:
        prefix = storable(letter_id)
        query = f"SELECT {_COLUMNS} FROM dead_letters WHERE id >= ? AND id < ? ORDER BY id LIMIT 2"  # noqa: S608 - ours
        rows = await self._database.read(
            lambda connection: connection.execute(query, (prefix, prefix + _LAST_CHARACTER)).fetchall()
        )
        if not prefix or not rows or (len(rows) > 1 and rows[0][0] != prefix):
            raise DeadLetterNotFound(
                f"There is no dead letter {letter_id!r}, or more than one begins so",
                hint="See them with `fabric dead list`.",
            )
        return self._letter(rows[0])

    async def start(self, letter: DeadLetter, run_id: RunId, created: Event, *, by: str, now: float) -> bool:
        settled = (
            "UPDATE dead_letters SET status = 'replayed', settled_by = ?, settled_at = ?, outcome = ? WHERE id = ?"
        )
        noticed = "UPDATE happenings SET run_id = ?, reason = '' WHERE sensor = ? AND key = ? AND run_id IS NULL"
        happening = (letter.payload.get("sensor"), letter.payload.get("key"))

        def write(connection: SqlConnection) -> bool:
            connection.execute(settled, (storable(by), now, run_id, storable(letter.id)))
            try:
                self._runs.create_undriven(connection, run_id, created)
            except DriverConflict:
                return False
            if all(happening):
                connection.execute(noticed, (run_id, *(storable(str(each)) for each in happening)))
            return True

        return await self._database.write(write)

    async def settle(self, letter: DeadLetter, *, status: str, by: str, outcome: str, now: float) -> bool:
        query = (
            "UPDATE dead_letters SET status = ?, settled_by = ?, settled_at = ?, outcome = ?"
            " WHERE id = ? AND status = ? RETURNING 1"
        )
        values = (status, storable(by), now, storable(outcome), storable(letter.id), letter.status)
        return await self._database.write(lambda connection: bool(connection.execute(query, values).fetchall()))

    def _letter(self, row: Sequence[Any]) -> DeadLetter:
        letter_id, kind, source, reason, payload, created_at, status, settled_by, settled_at, outcome = row
        return DeadLetter(
            id=str(letter_id),
            kind=LetterKind(kind),
            source=str(source),
            reason=str(reason),
            payload=self._seal.opened(bytes(payload)),
            created_at=float(created_at),
            status=str(status),
            settled_by=str(settled_by),
            settled_at=None if settled_at is None else float(settled_at),
            outcome=str(outcome),
        )
