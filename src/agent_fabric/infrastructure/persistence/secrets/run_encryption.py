"""Encrypts runs: AES-256-GCM with a random key for each run, sealed in turn with the user's keyring."""

import hmac
import os
from collections.abc import Callable
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


def opened(run_id: RunId, sealed: bytes, keyring: Callable[[], KeySealer]) -> RunCipher:
    """Return the cipher of a run whose key is stored so.

    Raises:
        RunKeyMissing: the keyring does not open it.
    """
    try:
        return RunCipher(run_id, keyring().unseal(sealed))
    except FabricError as problem:
        raise key_missing(run_id, problem.message) from problem


async def reseal_runs(database: Database, keyring: KeySealer) -> int:
    """Seal the keys of all encrypted runs, sessions and facts with the newest key; return how many were not yet.

    It can be stopped at any time and begun again, and others may read and write runs meanwhile.

    Raises:
        FabricError: a run's key fits none of the keyring's; those before it are done.
    """
    last, changed = 0, 0
    while True:

        def write(connection: SqlConnection, after: int = last) -> tuple[int, int, FabricError | None]:
            return _reseal_some(connection, keyring, after)

        last, count, problem = await database.write(write)
        changed += count
        if problem is not None:
            raise problem
        if last < 0:
            break
    for table in ("chat_sessions", "facts"):
        changed += await _reseal_table(database, keyring, table)
    return changed


async def _reseal_table(database: Database, keyring: KeySealer, table: str) -> int:
    after, changed = "", 0
    while True:

        def write(connection: SqlConnection, after: str = after) -> tuple[str, int, FabricError | None]:
            return _reseal_rows(connection, keyring, table, after)

        after, count, problem = await database.write(write)
        changed += count
        if problem is not None:
            raise problem
        if not after:
            return changed


def _reseal_some(connection: SqlConnection, keyring: KeySealer, after: int) -> tuple[int, int, FabricError | None]:
    """Return where to go on, -1 at the end, and how many keys were sealed anew; or what is wrong with the next one."""
    query = "SELECT run, key, run_id FROM run_keys LEFT JOIN runs ON number = run WHERE run > ? ORDER BY run LIMIT ?"
    rows: list[tuple[Any, ...]] = connection.execute(query, (after, AT_ONCE)).fetchall()
    count = 0
    for number, key, run_id in rows:
        try:
            fresh = keyring.reseal(key)
        except FabricError as problem:
            return after, count, key_missing(str(run_id), problem.message)
        if fresh != key:
            connection.execute("UPDATE run_keys SET key = ? WHERE run = ?", (fresh, number))
            count += 1
    return (int(rows[-1][0]) if len(rows) == AT_ONCE else -1), count, None


def _reseal_rows(
    connection: SqlConnection, keyring: KeySealer, table: str, after: str
) -> tuple[str, int, FabricError | None]:
    """Do the same for sessions or facts; an empty text says that there are no more."""
    query = f"SELECT id, key FROM {table} WHERE key IS NOT NULL AND id > ? ORDER BY id LIMIT ?"  # noqa: S608 - ours
    rows: list[tuple[Any, ...]] = connection.execute(query, (after, AT_ONCE)).fetchall()
    count = 0
    for session_id, key in rows:
        try:
            fresh = keyring.reseal(bytes(key))
        except FabricError as problem:
            return after, count, key_missing(str(session_id), problem.message)
        if fresh != bytes(key):
            connection.execute(f"UPDATE {table} SET key = ? WHERE id = ?", (fresh, session_id))  # noqa: S608 - ours
            count += 1
    return (str(rows[-1][0]) if len(rows) == AT_ONCE else ""), count, None
