"""Adds a document, or what has changed of it."""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.application.memory.embed_passages import EmbedPassages
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.memory import DocumentQuery, DocumentReader, MemoryStore, NewDocument, OnProgress
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import DocumentUnreadable, InvalidInputs
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.memory.documents import (
    Document,
    DocumentState,
    accept_labels,
    content_hash,
    document_id,
    plain_title,
    title_of,
)
from agent_fabric.domain.memory.passages import split_passages


@dataclass(frozen=True, slots=True)
class AddDocument:
    """Use case: read a document, make it searchable by words, then by meaning.

    Each step is durable by itself. Adding the same file again goes on with what is missing.
    """

    memory: MemoryStore
    reader: DocumentReader
    clock: Clock
    embed: EmbedPassages | None = None
    """None: it is searched by words only."""

    async def __call__(self, new: NewDocument, *, on_progress: OnProgress | None = None) -> Document:
        """Add a file and return the document; its state says how far it has come.

        Raises:
            InvalidInputs: a label is none.
            DocumentUnreadable: nothing can be read in it; the document says so, too.
            ModelError: the vectors could not be made; it is searched by words.
        """
        document = await self._find_known(new)
        if document is None:
            document = await self._read(new)
        if self.embed is not None and document.state is not DocumentState.READY:
            await self.embed(on_progress=on_progress)
            document = await self.memory.documents.find(document.document_id)
        return document

    async def _find_known(self, new: NewDocument) -> Document | None:
        """Return the document with the same bytes, if its owner has added them before and they were read."""
        wanted = DocumentQuery(
            viewer=Viewer((new.owner,), sees_all=False), owner=new.owner, content_hash=content_hash(new.data)
        )
        for document in await self.memory.documents.list(wanted):
            if document.state in (DocumentState.WORDS_READY, DocumentState.READY):
                labels = _labels([*document.labels, *new.labels])
                changed = replace(document, labels=labels, visibility=new.visibility)
                if changed != document:
                    await self.memory.documents.put(changed)
                return changed
        return None

    async def _read(self, new: NewDocument) -> Document:
        now = self.clock.now()
        document = Document(
            document_id=document_id(new.owner, new.source),
            owner=new.owner,
            visibility=new.visibility,
            title=title_of("", new.source),
            source=new.source,
            media_type=new.media_type,
            content_hash=content_hash(new.data),
            size=len(new.data),
            labels=_labels(new.labels),
            run_id=new.run_id,
            created_at=now,
            updated_at=now,
        )
        await self.memory.documents.put(document)
        try:
            read = await self.reader.read(new.data, source=new.source, media_type=new.media_type)
            passages = split_passages(read.text)
            if not passages:
                raise DocumentUnreadable(f"There is no text in {new.source}")
        except DocumentUnreadable as problem:
            failed = replace(document, state=DocumentState.FAILED, problem=problem.message)
            # What stood in it before must not be found any more.
            await self.memory.passages.replace(failed, [])
            await self.memory.documents.put(failed)
            raise
        title = plain_title(read.title) or title_of(read.text, new.source)
        return await self.memory.passages.replace(replace(document, title=title, notes=read.notes), passages)


def _labels(labels: Sequence[str]) -> tuple[str, ...]:
    try:
        return accept_labels(labels)
    except ValueError as problem:
        raise InvalidInputs(str(problem)) from problem
