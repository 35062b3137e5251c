"""The documents and facts of a fabric folder, with the methods of the client; and how folders and pages are added."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_fabric.application.memory.forget_document import MAX_FACTS, Remains
from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.memory import DocumentQuery, FactQuery, NewDocument
from agent_fabric.bootstrap.local import open_local
from agent_fabric.bootstrap.memory import Memory, ingestion_task, open_memory
from agent_fabric.bootstrap.records import open_records, this_person
from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.domain.errors import ConfigError, DocumentUnreadable
from agent_fabric.domain.events import Event, ToolReturned
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Viewer, Visibility
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.memory.documents import UNENCRYPTED
from agent_fabric.domain.memory.facts import FactKind, FactStatus
from agent_fabric.domain.memory.ingestion import ADD_FILE, ADD_PAGE, MAX_SOURCES, outcome_of
from agent_fabric.domain.memory.markdown import export_facts
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.memory.local_documents import files_in, read_local_document
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import plain, print_warning
from agent_fabric.interfaces.cli.place import Noun, Place, with_client
from agent_fabric.wire.memory import (
    DOCUMENT,
    FACT,
    FORGOTTEN,
    FOUND,
    HISTORY,
    IMPORTED,
    forgotten_document,
    forgotten_fact,
    found_items,
    history_of,
    imported_facts,
)
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient
    from agent_fabric.client.memory import Memory as ServerMemory

OWN = Viewer((LOCAL_OWNER,), sees_all=False)
"""Facts of other people are none of ours, even in our own folder."""


class LocalMemory:
    """The documents and facts of a fabric folder."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def add(self, source: str, data: bytes, *, labels: Sequence[str], visibility: str) -> Json:
        new = NewDocument(data=data, source=source, owner=LOCAL_OWNER, visibility=Visibility(visibility), labels=labels)
        return DOCUMENT.dump(await self._memory.add(new, on_progress=_print_progress))

    async def search(self, question: str, *, limit: int, labels: Sequence[str]) -> Sequence[Json]:
        wanted = DocumentQuery(viewer=OWN, labels=tuple(labels), sealed_facts=not acting_run())
        return [FOUND.dump(each) for each in found_items(await self._memory.search(question, wanted, limit=limit))]

    async def documents(self) -> Sequence[Json]:
        found = await self._memory.store.documents.list(DocumentQuery(viewer=OWN, limit=1_000))
        return [DOCUMENT.dump(each) for each in found]

    async def facts(self, status: str = "") -> Sequence[Json]:
        query = FactQuery(viewer=OWN, statuses=(FactStatus(status),) if status else ())
        return [FACT.dump(each) for each in await self._memory.store.facts.list(query)]

    async def remember(self, text: str, *, kind: str, pinned: bool) -> Json:
        return FACT.dump(await self._memory.remember(text, by=LOCAL_OWNER, kind=FactKind(kind), pinned=pinned))

    async def change(self, prefix: str, changes: Mapping[str, Any]) -> Json:
        """Replace the text of a fact by a new fact, pin it, or both."""
        text, pinned = changes.get("text"), changes.get("pinned")
        return FACT.dump(await self._memory.review.edit(prefix, text, by=LOCAL_OWNER, viewer=OWN, pinned=pinned))

    async def review(self, prefix: str, decision: str, *, replaces: str = "") -> Json:
        review = self._memory.review
        if decision == "accept":
            return FACT.dump(await review.accept(prefix, by=LOCAL_OWNER, viewer=OWN, replaces=replaces))
        decide = review.reject if decision == "reject" else review.confirm
        return FACT.dump(await decide(prefix, by=LOCAL_OWNER, viewer=OWN))

    async def why(self, prefix: str) -> Json:
        return HISTORY.dump(history_of(await self._memory.review.why(prefix, viewer=OWN)))

    async def document(self, prefix: str) -> Json:
        found = await self._memory.store.documents.find(prefix, viewer=OWN)
        passages = await self._memory.store.passages.read(found.document_id)
        return {**DOCUMENT.dump(found), "text": "".join(each.text for each in passages)}

    async def forget(self, prefix: str, *, erase: bool, runs: bool) -> Json:
        done = await self._memory.review.forget(prefix, by=LOCAL_OWNER, viewer=OWN, erase=erase)
        if runs:
            done = done._replace(left=await self._remove(done.left))
        return FORGOTTEN.dump(forgotten_fact(done, erased=erase))

    async def erase_document(self, prefix: str, *, runs: bool) -> Json:
        done = await self._memory.forget_document(prefix, by=LOCAL_OWNER, viewer=OWN)
        if runs:
            done = done._replace(left=await self._remove(done.left))
        return FORGOTTEN.dump(forgotten_document(done))

    async def _remove(self, left: Remains) -> Remains:
        return await self._memory.remove_remains(left, owner=LOCAL_OWNER, by=this_person())

    async def export(self) -> str:
        return export_facts(await self._memory.store.facts.list(FactQuery(viewer=OWN, limit=MAX_FACTS)))

    async def import_(self, text: str, *, source: str, accept: bool) -> Json:
        """Add the facts of an export; they wait for a review, unless `accept` vouches for them."""
        made = await self._memory.import_facts(text, owner=LOCAL_OWNER, source=source, vouched=accept)
        return IMPORTED.dump(imported_facts(made))


def warn_if_unencrypted(at: Place) -> None:
    """Say that what was added to a folder is not encrypted, where all runs are. A server says so in its answers."""
    if at.url() is None and configuration(at.root()).config.encryption == "all":
        print_warning(f"{UNENCRYPTED}. Use an encrypted disk, or add nothing that must not be read there.")


@asynccontextmanager
async def _open(at: Place) -> AsyncIterator[LocalMemory]:
    root = at.root()
    config = configuration(root).config
    with open_records(root) as records:
        yield LocalMemory(open_memory(records, config))


MEMORY = Noun(_open, lambda client: client.memory)
MemoryAccess: TypeAlias = "LocalMemory | ServerMemory"


def _print_progress(done: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:,} passages read")
        sys.stderr.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is to be added."""

    files: Sequence[Path] = ()
    pages: Sequence[str] = ()
    folder: Path | None = None
    labels: Sequence[str] = ()
    team: bool = False
    prune: bool = False
    """Whether documents are erased whose files are gone from the folder."""


def is_page(what: str) -> bool:
    """Tell whether something to add is an address."""
    return what.startswith(("http://", "https://"))


def sources_of(what: str, labels: Sequence[str], *, team: bool, prune: bool) -> Sources:
    """Return what an address or a folder stands for."""
    if is_page(what):
        return Sources(pages=(what,), labels=labels, team=team)
    folder = Path(what).expanduser().absolute()
    try:
        found = files_in(folder, most=MAX_SOURCES)
    except ValueError as problem:
        raise ConfigError(str(problem), hint="Add its folders one by one.") from problem
    if found.skipped:
        sys.stderr.write(f"left out: {plain(found.skipped)}\n")
    if not found.files and not prune:
        raise ConfigError(
            f"There are no documents in {folder}", hint="Text, Markdown, code, HTML, Word and PDF are read."
        )
    return Sources(files=found.files, folder=folder, labels=labels, team=team, prune=prune)


def ingest(at: Place, sources: Sources) -> Json:
    """Add them, show how far it has come, and return what came of it."""
    url = at.url()
    if url is not None:
        return with_client(url, lambda client: _at_server(client, sources))
    root = at.root()
    loaded = configuration(root)

    async def go() -> Json:
        progress = _Progress(len(sources.files) + len(sources.pages))
        async with open_local(root, loaded, progress, asks_here=False) as fabric:
            task = ingestion_task(
                open_workflows(root, loaded.config),
                files=[str(path) for path in sources.files],
                pages=sources.pages,
                labels=sources.labels,
                team=sources.team,
            )
            result = await fabric.execute_task(task, on_created=progress.begin)
            progress.end()
            memory = open_memory(fabric.records, loaded.config)
            gone = await _missing_documents(memory, sources)
            if sources.prune:
                for each in gone:
                    await memory.forget_document(each["id"], by=LOCAL_OWNER, viewer=OWN)
            return {**outcome_of(result), "gone": gone, "pruned": sources.prune}

    return asyncio.run(go())


async def _missing_documents(memory: Any, sources: Sources) -> list[Json]:
    """Return the documents of a folder whose files are not there any more."""
    if sources.folder is None:
        return []
    known = await memory.store.documents.list(DocumentQuery(viewer=OWN, owner=LOCAL_OWNER, limit=MAX_SOURCES))
    there = {str(path) for path in sources.files}
    below = f"{sources.folder}/"
    return [DOCUMENT.dump(each) for each in known if each.source.startswith(below) and each.source not in there]


async def _at_server(client: "FabricClient", sources: Sources) -> Json:
    """Send each file to a server; a page is fetched there."""
    added: list[Json] = []
    problems: list[Json] = []
    progress = _Progress(len(sources.files) + len(sources.pages))
    wish = {"labels": list(sources.labels), "visibility": "team" if sources.team else "private"}
    for path in sources.files:
        try:
            added.append(await client.memory.add(str(path), await asyncio.to_thread(read_local_document, path), **wish))
        except (DocumentUnreadable, OSError) as problem:
            problems.append({"source": str(path), "problem": str(problem)})
        progress.count()
    added += [await client.memory.add_page(page, **wish) for page in sources.pages]
    progress.end()
    return {"run_id": None, "status": "completed", "added": added, "problems": problems, "gone": [], "pruned": False}


class _Progress(EventsOnly):
    """EventSink that counts documents at a terminal."""

    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._done = 0
        self._shows = sys.stderr.isatty()

    def begin(self, run_id: RunId) -> None:
        """Say how to go on with it, should this process be stopped."""
        if self._shows or self._whole > 1:
            sys.stderr.write(f"{count_of(self._whole, 'document')}; stopped, it goes on with: fabric resume {run_id}\n")

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:  # noqa: ARG002 - as every sink
        for event in events:
            if isinstance(event.body, ToolReturned) and event.body.tool in (ADD_FILE, ADD_PAGE):
                self.count()

    def count(self) -> None:
        """Show that one more is done."""
        self._done += 1
        if self._shows:
            sys.stderr.write(f"\r{self._done:,} of {self._whole:,}")
            sys.stderr.flush()

    def end(self) -> None:
        """End the line."""
        if self._shows and self._done:
            sys.stderr.write("\n")
