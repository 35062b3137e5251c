"""The tables of documents and facts, together."""

from agent_fabric.application.ports.memory import MemoryStore
from agent_fabric.infrastructure.persistence.memory.documents import SqlDocumentRepository
from agent_fabric.infrastructure.persistence.memory.facts import SqlFactRepository, SqlMemoryUses
from agent_fabric.infrastructure.persistence.memory.passages import SqlPassageIndex
from agent_fabric.infrastructure.persistence.sql import Database


def open_memory(database: Database) -> MemoryStore:
    """Return the tables of documents and facts."""
    passages = SqlPassageIndex(database)
    return MemoryStore(
        documents=SqlDocumentRepository(database, passages.forget),
        passages=passages,
        facts=SqlFactRepository(database),
        uses=SqlMemoryUses(database),
    )
