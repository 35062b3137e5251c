"""How documents of folders and pages are added: by a run, or one after another at a server."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.memory import DocumentQuery
from agent_fabric.bootstrap.local import open_local
from agent_fabric.bootstrap.memory import ingestion_task, open_memory
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, DocumentUnreadable
from agent_fabric.domain.events import Event, ToolReturned
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.memory.ingestion import ADD_FILE, ADD_PAGE, MAX_SOURCES, outcome_of
from agent_fabric.domain.plural import count_of
from agent_fabric.infrastructure.memory.local_documents import files_in, read_local_document
from agent_fabric.interfaces.cli.memory.local_memory import OWN, is_page
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import plain
from agent_fabric.interfaces.cli.place import Place, with_client
from agent_fabric.wire.memory import DOCUMENT
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient


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


def sources_of(what: Sequence[str], labels: Sequence[str], *, team: bool, prune: bool) -> Sources:
    """Return what addresses, folders and files stand for."""
    pages = tuple(each for each in what if is_page(each))
    paths = [Path(each).expanduser().absolute() for each in what if not is_page(each)]
    if absent := [str(path) for path in paths if not path.exists()]:
        raise ConfigError(f"There is no {' and no '.join(absent)}", hint="Name files, folders or pages.")
    files = [file for path in paths for file in (_documents_in(path, prune=prune) if path.is_dir() else [path])]
    folder = paths[0] if len(what) == 1 and paths and paths[0].is_dir() else None
    return Sources(files=list(dict.fromkeys(files)), pages=pages, folder=folder, labels=labels, team=team, prune=prune)


def _documents_in(folder: Path, *, prune: bool) -> Sequence[Path]:
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
    return found.files


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
            try:
                result = await fabric.execute_task(task, on_created=progress.begin)
            except asyncio.CancelledError:
                progress.stop()
                raise
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
        self._run_id: RunId | None = None
        self._done = 0
        self._shows = sys.stderr.isatty()

    def begin(self, run_id: RunId) -> None:
        """Say what is added, and by which run."""
        self._run_id = run_id
        if self._shows or self._whole > 1:
            sys.stderr.write(f"{count_of(self._whole, 'document')}, run {run_id}\n")

    def stop(self) -> None:
        """Say how to go on with what was stopped."""
        self.end()
        if self._run_id is not None:
            sys.stderr.write(f"stopped; it goes on with: fabric resume {self._run_id}\n")

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
