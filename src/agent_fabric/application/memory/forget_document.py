"""Forgets documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent_fabric.application.memory.remains import Remains, find_remains
from agent_fabric.application.ports.memory import FactQuery, MemoryStore, MemoryUse
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.memory.documents import Document

MAX_FACTS: Final = 1_000_000


class ForgottenDocument(NamedTuple):
    """What is left of a document that was erased."""

    document: Document
    influenced: Sequence[MemoryUse]
    """Runs that were told passages of it."""
    left: Remains
    """Where such passages still stand."""


@dataclass(frozen=True, slots=True)
class ForgetDocument:
    """Use case: erase a document, and say where passages of it still stand."""

    memory: MemoryStore
    reader: RunReader | None = None

    async def __call__(self, prefix: str, *, by: str, viewer: Viewer) -> ForgottenDocument:
        """Erase a document of the person who asks.

        Raises:
            MemoryNotFound: there is no such document that they may see.
            Forbidden: it belongs to someone else.
        """
        found = await self.memory.documents.find(prefix, viewer=viewer)
        if found.owner != by:
            raise Forbidden(f"Document {found.document_id} belongs to {found.owner}", hint="Ask its owner.")
        uses = await self.memory.uses.of(found.document_id)
        notes = await self._notes(found)
        await self.memory.documents.remove(found.document_id)
        return ForgottenDocument(found, uses, await find_remains(self.reader, [use.run_id for use in uses], notes))

    async def _notes(self, document: Document) -> list[str]:
        """Say what holds something of a document and is not erased with it."""
        notes = [f"What it was added from is not touched: {document.source}"]
        if document.run_id is not None:
            notes.append(f"The log of run {document.run_id}, which added it, has its name and title.")
        facts = await self.memory.facts.list(FactQuery(owner=document.owner, limit=MAX_FACTS))
        notes += [
            f"Fact {fact.id} quotes it: {fact.text!r}; erase it with `fabric memory forget {fact.id} --erase`."
            for fact in facts
            if fact.said_by == document.exposes
        ]
        return notes
