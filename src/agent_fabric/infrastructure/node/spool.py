"""What a node remembers: calls and their results until the hub has them, and its own record of what happened.

Standard sqlite3 with full durability: what is written here is on the disk before anything follows from it.
"""

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.node import SpooledCall, SpoolState
from agent_fabric.domain.fleet.chain import EMPTY_HEAD, ChainEntry, entry_hash

KEPT_S: Final = 30 * 86_400.0
"""How long calls are remembered; none lives longer than a day, so whatever was forgotten has expired."""
HUB_POLICY: Final = "hub_policy"
"""Under this name the hub's document is kept: it holds while the hub is away, too."""
TOOL_PINS: Final = "tool_pins"
"""Under this name it is kept how tools of tool servers were described when they were first seen."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS commands (
    execution_id TEXT NOT NULL PRIMARY KEY,
    hash         TEXT NOT NULL,
    state        TEXT NOT NULL,
    tool_name    TEXT NOT NULL,
    result       TEXT,
    received_at  REAL NOT NULL,
    finished_at  REAL
);
CREATE INDEX IF NOT EXISTS commands_unreported ON commands (received_at) WHERE state IN ('started', 'finished');
CREATE TABLE IF NOT EXISTS chain (
    position     INTEGER NOT NULL PRIMARY KEY,
    at           REAL NOT NULL,
    kind         TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    detail       TEXT NOT NULL,
    hash         TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS kept (
    name         TEXT NOT NULL PRIMARY KEY,
    value        TEXT NOT NULL
);
"""


class Spool:
    """The file. One process at a time uses it, from one thread."""

    def __init__(self, path: Path) -> None:
        """Open or make it.

        Raises:
            sqlite3.Error: it cannot be used.
        """
        self.path = path
        self._database = sqlite3.connect(path, isolation_level=None, timeout=10.0)
        path.chmod(0o600)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(_SCHEMA)
        row = self._database.execute("SELECT position, hash FROM chain ORDER BY position DESC LIMIT 1").fetchone()
        self._position: int = row[0] if row else 0
        self._head: str = row[1] if row else EMPTY_HEAD

    @property
    def head(self) -> tuple[int, str]:
        return self._position, self._head

    def find(self, execution_id: str) -> SpooledCall | None:
        query = "SELECT execution_id, hash, state, tool_name, result FROM commands WHERE execution_id = ?"
        row = self._database.execute(query, (execution_id,)).fetchone()
        return None if row is None else _call(row)

    def receive(
        self, execution_id: str, call_hash: str, tool_name: str, detail: Mapping[str, Any], *, begins: bool = False
    ) -> None:
        state = SpoolState.STARTED if begins else SpoolState.RECEIVED
        with self._transaction():
            self._database.execute(
                "INSERT INTO commands (execution_id, hash, state, tool_name, received_at) VALUES (?, ?, ?, ?, ?)",
                (execution_id, call_hash, state, tool_name, time.time()),
            )
            self._append("received", execution_id, detail)
            if begins:
                self._append("started", execution_id, {})

    def start(self, execution_id: str) -> None:
        with self._transaction():
            self._set(execution_id, SpoolState.STARTED)
            self._append("started", execution_id, {})

    def finish(
        self, execution_id: str, result: Mapping[str, Any], detail: Mapping[str, Any], kind: str = "finished"
    ) -> None:
        with self._transaction():
            self._database.execute(
                "UPDATE commands SET state = ?, result = ?, finished_at = ? WHERE execution_id = ?",
                (SpoolState.FINISHED, json.dumps(result), time.time(), execution_id),
            )
            self._append(kind, execution_id, detail)

    def report(self, execution_id: str) -> None:
        """Remember that the hub has a result. What was long of it is not needed any more.

        It is on the disk with the next write: a power cut before that lets the result be sent again, and the first
        one counts.
        """
        self._database.execute("PRAGMA synchronous = NORMAL")
        try:
            with self._transaction():
                self._database.execute(
                    "UPDATE commands SET state = ? WHERE execution_id = ? AND state = ?",
                    (SpoolState.REPORTED, execution_id, SpoolState.FINISHED),
                )
        finally:
            self._database.execute("PRAGMA synchronous = FULL")

    def note(self, kind: str, execution_id: str, detail: Mapping[str, Any]) -> None:
        with self._transaction():
            self._append(kind, execution_id, detail)

    def list_unreported(self) -> Sequence[SpooledCall]:
        query = (
            "SELECT execution_id, hash, state, tool_name, result FROM commands"
            " WHERE state IN ('started', 'finished') ORDER BY received_at"
        )
        return [_call(row) for row in self._database.execute(query)]

    def entries(self, after: int, limit: int) -> Sequence[ChainEntry]:
        query = (
            "SELECT position, at, kind, execution_id, detail, hash FROM chain"
            " WHERE position > ? ORDER BY position LIMIT ?"
        )
        rows = self._database.execute(query, (after, limit))
        return [ChainEntry(p, at, kind, execution, json.loads(detail), h) for p, at, kind, execution, detail, h in rows]

    def read(self, name: str) -> Any:
        """Return what was kept under a name; None: nothing."""
        row = self._database.execute("SELECT value FROM kept WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def keep(self, name: str, value: Any) -> None:
        with self._transaction():
            self._database.execute(
                "INSERT INTO kept (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, json.dumps(value)),
            )

    def drop(self, name: str) -> None:
        with self._transaction():
            self._database.execute("DELETE FROM kept WHERE name = ?", (name,))

    def forget_old(self) -> Sequence[str]:
        """Forget calls that ended long ago; return their ids."""
        with self._transaction():
            query = (
                "DELETE FROM commands WHERE received_at < ? AND state IN ('received', 'reported')"
                " RETURNING execution_id"
            )
            return [row[0] for row in self._database.execute(query, (time.time() - KEPT_S,)).fetchall()]

    def close(self) -> None:
        self._database.close()

    def _set(self, execution_id: str, state: SpoolState) -> None:
        self._database.execute("UPDATE commands SET state = ? WHERE execution_id = ?", (state, execution_id))

    def _append(self, kind: str, execution_id: str, detail: Mapping[str, Any]) -> None:
        position, at = self._position + 1, time.time()
        digest = entry_hash(self._head, position, at, kind, execution_id, detail)
        self._database.execute(
            "INSERT INTO chain (position, at, kind, execution_id, detail, hash) VALUES (?, ?, ?, ?, ?, ?)",
            (position, at, kind, execution_id, json.dumps(detail), digest),
        )
        self._position, self._head = position, digest

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        before = self._position, self._head
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            self._position, self._head = before
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise


def _call(row: tuple[Any, ...]) -> SpooledCall:
    execution_id, call_hash, state, tool_name, result = row
    return SpooledCall(
        execution_id, call_hash, SpoolState(state), tool_name, None if result is None else json.loads(result)
    )
