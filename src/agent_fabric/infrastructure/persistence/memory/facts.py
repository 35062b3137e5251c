"""The tables of facts and of the answers that rest on them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.memory import Check, FactQuery, MemoryUse
from agent_fabric.domain.errors import FactRefused, FactSettled, MemoryNotFound, RunKeyMissing
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import DocumentId, FactId, RunId
from agent_fabric.domain.memory.facts import Fact, FactStatus
from agent_fabric.domain.memory.markdown import fact_from, fact_values
from agent_fabric.infrastructure.persistence.chat.rows import SessionKeys, seal, unseal
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection, erasing, marks, storable
from agent_fabric.infrastructure.persistence.table import FLAG, Table, begins_with, matching
from agent_fabric.wire.json_codec import dump_json, load_json

_NAMES: Final = tuple(each.name for each in fields(Fact) if each.name != "sealed")
_SEALED: Final = ("text", "source_quote", "said_by", "untrusted")
"""Columns that tell what a sealed fact says."""
_NOTE: Final = (
    "INSERT INTO memory_uses (item, run_id, used_at, cited) SELECT ?, ?, ?, ?"
    " WHERE EXISTS (SELECT 1 FROM facts WHERE id = ?) OR EXISTS (SELECT 1 FROM documents WHERE id = ?)"
    " ON CONFLICT (item, run_id) DO UPDATE SET"
    " cited = CASE WHEN excluded.cited = 1 THEN 1 ELSE memory_uses.cited END"
)
_USES: Final = Table("memory_uses", MemoryUse, key="item run_id", columns="run_id used_at cited", cited=FLAG)
_SEE_ALL: Final = "See all facts with `fabric memory list`."


class SqlFactRepository:
    """FactRepository over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._keys = SessionKeys(database.keys)
        self._facts: Table[Fact] = Table("facts", self._fact, key="id", columns=f"{' '.join(_NAMES)} key", split=_split)

    async def add(self, fact: Fact, *, check: Check | None = None) -> None:
        new = self._database.keys.new(RunId(fact.id)) if fact.sealed else None
        sealed = {} if new is None else {**_seal_texts(fact, new.cipher), "key": new.sealed}

        def write(connection: SqlConnection) -> None:
            if check is not None:
                beside = "WHERE owner = ? AND scope = ? AND subject = ?"
                check(self._facts.rows(connection, beside, fact.owner, fact.scope, fact.subject))
            if not self._facts.add(connection, fact, **sealed):
                raise FactRefused(f"There is a fact {fact.id} already", hint=f"See `fabric memory show {fact.id}`.")

        await self._database.write(write)

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Fact:
        begins, owned = begins_with("id", prefix), _owned_by(viewer)
        rest = f"WHERE {begins.sql} AND {owned.sql} ORDER BY id LIMIT 2"
        found = await self._facts.within(self._database).rows(rest, *begins.values, *owned.values)
        if not prefix or not found:
            raise MemoryNotFound(f"There is no fact {prefix!r}", hint=_SEE_ALL)
        if len(found) > 1:
            raise MemoryNotFound(f"Several facts begin with {prefix!r}", hint="Give more characters of the id.")
        return found[0]

    async def list(self, wanted: FactQuery) -> Sequence[Fact]:
        owned = _owned_by(wanted.viewer)
        same = matching(owner=wanted.owner, status=wanted.statuses, scope=wanted.scope)
        about, subject = ("", ()) if wanted.subject is None else (" AND subject = ?", (wanted.subject,))
        rest = f"WHERE {owned.sql} AND {same.sql}{about} ORDER BY created_at DESC, id LIMIT ?"
        values = (*owned.values, *same.values, *subject, wanted.limit)
        return await self._facts.within(self._database).rows(rest, *values)

    async def change(self, fact: Fact, *, was: FactStatus) -> None:
        def write(connection: SqlConnection) -> int:
            row = connection.execute("SELECT key FROM facts WHERE id = ?", (fact.id,)).fetchone()
            cipher = None if row is None else self._keys.cipher(fact.id, row[0])
            changes = {**_split(fact), **_seal_texts(fact, cipher)}
            return self._facts.update(connection, changes, "id = ? AND status = ?", fact.id, was.value)

        if not await self._database.write(write):
            raise FactSettled(
                f"Fact {fact.id} is no longer {was.value}", hint=f"See `fabric memory why {fact.id}`, and try again."
            )

    async def erase(self, fact_id: FactId) -> None:
        def write(connection: SqlConnection) -> None:
            with erasing(connection, self._database.dialect):
                if not self._facts.delete(connection, "id = ?", fact_id):
                    raise MemoryNotFound(f"There is no fact {fact_id!r}", hint=_SEE_ALL)
                connection.execute("DELETE FROM memory_uses WHERE item = ?", (fact_id,))

        await self._database.write(write)
        await self._database.truncate_log()

    def _fact(self, *, key: bytes | None, **values: Any) -> Fact:
        try:
            cipher = self._keys.cipher(values["id"], key)
            values |= {name: unseal(cipher, _place(name), values[name]) for name in _SEALED}
        except RunKeyMissing:
            values |= {"text": "", "source_quote": "", "said_by": "", "untrusted": "[]"}
        values["untrusted"] = load_json(values["untrusted"].encode())
        return fact_from({**values, "sealed": key is not None})


class SqlMemoryUses:
    """MemoryUses over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._uses = _USES.within(database)

    async def note(self, run_id: RunId, items: Sequence[FactId | DocumentId], *, at: float, cited: bool) -> None:
        rows = [(item, run_id, at, int(cited), item, item) for item in items]
        await self._database.write(lambda connection: connection.executemany(_NOTE, rows))

    async def of(self, item: FactId | DocumentId) -> Sequence[MemoryUse]:
        return await self._uses.rows("WHERE item = ? ORDER BY used_at DESC, run_id", item)


def _owned_by(viewer: Viewer) -> Condition:
    """Return the condition under which a fact exists for a viewer: facts are never shared."""
    if viewer.sees_all:
        return Condition("1 = 1", ())
    if not viewer.owners:
        return Condition("1 = 0", ())
    return Condition(f"facts.owner IN ({marks(viewer.owners)})", viewer.owners)


def _place(column: str) -> str:
    return f"fact\0{column}"


def _split(fact: Fact) -> dict[str, Any]:
    values = fact_values(fact) | {"untrusted": dump_json([storable(each) for each in fact.untrusted]).decode()}
    return {name: values[name] for name in _NAMES}


def _seal_texts(fact: Fact, cipher: Cipher | None) -> dict[str, Any]:
    """Return the columns that tell what a fact says, if it is sealed."""
    return {} if cipher is None else {name: seal(cipher, _place(name), _split(fact)[name]) for name in _SEALED}
