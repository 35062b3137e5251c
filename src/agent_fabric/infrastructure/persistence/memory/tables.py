"""The tables of documents and facts, together."""

from functools import cached_property

from agent_fabric.infrastructure.persistence.memory.documents import SqlDocumentRepository
from agent_fabric.infrastructure.persistence.memory.facts import SqlFactRepository, SqlMemoryUses
from agent_fabric.infrastructure.persistence.memory.passages import SqlPassageIndex
from agent_fabric.infrastructure.persistence.sql import Database


class SqlMemory:
    """MemoryStore over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @cached_property
    def documents(self) -> SqlDocumentRepository:
        return SqlDocumentRepository(self._database, self.passages.forget)

    @cached_property
    def passages(self) -> SqlPassageIndex:
        return SqlPassageIndex(self._database)

    @cached_property
    def facts(self) -> SqlFactRepository:
        return SqlFactRepository(self._database)

    @cached_property
    def uses(self) -> SqlMemoryUses:
        return SqlMemoryUses(self._database)
