"""Encrypts runs: AES-256-GCM with a random key for each run, sealed in turn with the user's keyring."""

import hmac
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agent_fabric.application.ports.encryption import KeySealer
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.secrets.sealing import key_missing, owner_of
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
AT_ONCE: Final = 200
"""Keys that are sealed anew in one transaction: others who write wait for no more than that."""


def new_key() -> bytes:
    """Return a new random key."""
    return os.urandom(KEY_BYTES)


class RunCipher:
    """Cipher of one run. What it has sealed can be read in its own place only."""

    def __init__(self, run_id: RunId, key: bytes) -> None:
        self.owner = owner_of(run_id)
        self._run = run_id.encode()
        # One key for each purpose: what is learned about addresses says nothing about contents.
        self._sealing = AESGCM(hmac.digest(key, b"agent-fabric contents", "sha256"))
        self._naming = hmac.digest(key, b"agent-fabric addresses", "sha256")

    def seal(self, place: str, data: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._sealing.encrypt(nonce, data, self._bound_to(place))

    def unseal(self, place: str, data: bytes) -> bytes:
        try:
            return self._sealing.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._bound_to(place))
        except (InvalidTag, ValueError):
            shown = place.replace("\0", " ")
            raise ValueError(f"{shown} of run {self._run.decode()} was changed, or belongs elsewhere") from None

    def address(self, content: bytes) -> bytes:
        return self.owner + hmac.digest(self._naming, content, "sha256")

    def _bound_to(self, place: str) -> bytes:
        return self._run + b"\0" + place.encode()


def open_cipher(run_id: RunId, sealed: bytes, keyring: Callable[[], KeySealer]) -> RunCipher:
    """Return the cipher of a run whose key is stored so.

    Raises:
        RunKeyMissing: the keyring does not open it.
    """
    try:
        return RunCipher(run_id, keyring().unseal(sealed))
    except FabricError as problem:
        raise key_missing(run_id, problem.message) from problem


_SEALED: Final = (
    ("run_keys", "run", "SELECT run, key, run_id FROM run_keys LEFT JOIN runs ON number = run WHERE run > ?", -1),
    *(
        (table, "id", f"SELECT id, key, id FROM {table} WHERE key IS NOT NULL AND id > ?", "")  # noqa: S608 - ours
        for table in ("chat_sessions", "facts")
    ),
)
"""Tables with keys: name, column that says whose it is, query for the next ones with their names for people, and what
comes before the first."""


async def reseal_runs(database: Database, keyring: KeySealer) -> int:
    """Seal the keys of all encrypted runs, sessions and facts with the newest key; return how many were not yet.

    It can be stopped at any time and begun again, and others may read and write runs meanwhile.

    Raises:
        FabricError: a run's key fits none of the keyring's; those before it are done.
    """
    changed = 0
    for table, column, query, after in _SEALED:
        last: Any = after
        while last is not None:
            seal_next = partial(_reseal_next, keyring=keyring, table=table, column=column, query=query, after=last)
            last, count, problem = await database.write(seal_next)
            changed += count
            if problem is not None:
                raise problem
    return changed


def _reseal_next(
    connection: SqlConnection, *, keyring: KeySealer, table: str, column: str, query: str, after: object
) -> tuple[Any, int, FabricError | None]:
    """Return where to go on, None at the end, how many keys were sealed anew, and what is wrong with the next one."""
    rows: list[tuple[Any, ...]] = connection.execute(f"{query} ORDER BY {column} LIMIT ?", (after, AT_ONCE)).fetchall()
    count = 0
    for which, key, name in rows:
        try:
            fresh = keyring.reseal(bytes(key))
        except FabricError as problem:
            return after, count, key_missing(str(name), problem.message)
        if fresh != bytes(key):
            connection.execute(f"UPDATE {table} SET key = ? WHERE {column} = ?", (fresh, which))  # noqa: S608 - ours
            count += 1
    return (rows[-1][0] if len(rows) == AT_ONCE else None), count, None
