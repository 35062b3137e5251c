"""Forgets documents, and finds what is left of what was forgotten.

A log is not rewritten, so it is named, or the run is deleted.
"""

from collections.abc import Iterable

from agent_fabric.application.ports.audit import RetentionStore
from agent_fabric.application.ports.memory import COPIES, MAX_FACTS, FactQuery, ForgottenDocument, MemoryStore, Remains
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FolderLinked, Forbidden, RunHeld, RunKeyMissing, RunNotFound
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.memory.documents import Document


async def find_remains(reader: RunReader | None, runs: Iterable[RunId], notes: Iterable[str] = ()) -> Remains:
    """Return which of these runs are still there, and the sessions that they are turns of."""
    wanted = list(dict.fromkeys(runs))
    told = [*notes, COPIES]
    if reader is None:
        return Remains(wanted, notes=told)
    logs: list[RunId] = []
    sessions: list[str] = []
    for run_id in wanted:
        try:
            created = await _creation_of(reader, run_id)
        except RunNotFound:
            continue  # it was deleted, and its log with it
        logs.append(run_id)
        if created is not None and created.session:
            sessions.append(created.session)
    return Remains(logs, list(dict.fromkeys(sessions)), told)


@dataclass(frozen=True, slots=True)
class RemoveRemains:
    """Use case: delete the runs whose logs still hold what was forgotten, as far as they belong to who forgets it."""

    reader: RunReader
    retention: RetentionStore

    async def __call__(self, left: Remains, *, owner: str, by: str) -> Remains:
        """Return what is left then; of each run that stays, a note says why."""
        kept: list[RunId] = []
        reasons: list[str] = []
        for run_id in left.logs:
            reason = await self._remove(run_id, owner, by)
            if reason:
                kept.append(run_id)
                reasons.append(f"Run {run_id} stays: {reason}")
        await self.retention.sweep()
        removed = [run_id for run_id in left.logs if run_id not in kept]
        return Remains(kept, left.sessions, [*reasons, *left.notes], removed)

    async def _remove(self, run_id: RunId, owner: str, by: str) -> str:
        """Delete a run; return why it stays, or nothing."""
        try:
            created = await _creation_of(self.reader, run_id)
            if created is None:
                return "it is encrypted, and its key is not here"
            if created.task.owner != owner:
                return f"it belongs to {created.task.owner}"
            if created.session:
                return f"it is a turn of session {created.session}, and goes with it"
            if not (await self.reader.status(run_id)).settled:
                return "it has not ended"
            await self.retention.remove(run_id, by=by, reason="what it holds was forgotten")
        except RunNotFound:
            return ""
        except (RunHeld, FolderLinked) as problem:
            return problem.message
        return ""


async def _creation_of(reader: RunReader, run_id: RunId) -> RunCreated | None:
    """Return how a run began; None: no one can read it here."""
    try:
        (first, *_) = await reader.page(run_id, after=-1, limit=1)
    except RunKeyMissing:
        return None
    return first.body if isinstance(first.body, RunCreated) else None


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
