"""Where `fabric memory` finds documents and facts: in a folder on this machine, or at a server."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from agent_fabric.application.memory.forget_document import MAX_FACTS
from agent_fabric.application.memory.remains import Remains
from agent_fabric.application.ports.memory import DocumentQuery, FactQuery, NewDocument
from agent_fabric.bootstrap.memory import Memory, open_memory
from agent_fabric.bootstrap.records import open_records, this_person
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Viewer, Visibility
from agent_fabric.domain.memory.documents import UNENCRYPTED, Document
from agent_fabric.domain.memory.facts import FactKind, FactStatus
from agent_fabric.domain.memory.markdown import export_facts
from agent_fabric.infrastructure.memory.local_documents import read_local_document
from agent_fabric.infrastructure.sandbox.run_processes import acting_run
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import print_warning
from agent_fabric.interfaces.cli.place import Place, with_client
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
    from agent_fabric.interfaces.cli.memory.memory_places_remote import ServerMemory

T = TypeVar("T")
MemoryAccess: TypeAlias = "LocalMemory | ServerMemory"
"""The memory of a folder, or of a server. A command may call what both have."""
OWN = Viewer((LOCAL_OWNER,), sees_all=False)
"""Facts of other people are none of ours, even in our own folder."""


class LocalMemory:
    """The documents and facts of a fabric folder."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def add(self, path: Path, labels: Sequence[str], on_progress: Callable[[int], None], *, team: bool) -> Json:
        """Add the file at an absolute path.

        Raises:
            ConfigError: it cannot be opened.
        """
        try:
            data = await asyncio.to_thread(read_local_document, path)
        except OSError as problem:
            raise ConfigError(
                f"{path} cannot be read: {problem.strerror or problem}", hint="Name a file that exists."
            ) from problem
        new = NewDocument(
            data=data,
            source=str(path),
            owner=LOCAL_OWNER,
            visibility=Visibility.TEAM if team else Visibility.PRIVATE,
            labels=labels,
        )
        return DOCUMENT.dump(await self._memory.add(new, on_progress=on_progress))

    async def search(self, question: str, labels: Sequence[str], *, limit: int) -> Sequence[Json]:
        wanted = DocumentQuery(viewer=OWN, labels=tuple(labels), sealed_facts=not acting_run())
        found = found_items(await self._memory.search(question, wanted, limit=limit))
        return [FOUND.dump(each) for each in found]

    async def documents(self) -> Sequence[Json]:
        found = await self._memory.store.documents.list(DocumentQuery(viewer=OWN, limit=1_000))
        return [DOCUMENT.dump(each) for each in found]

    async def facts(self, statuses: Sequence[FactStatus]) -> Sequence[Json]:
        query = FactQuery(viewer=OWN, statuses=tuple(statuses))
        return [FACT.dump(each) for each in await self._memory.store.facts.list(query)]

    async def remember(self, text: str, *, preference: bool, pinned: bool) -> Json:
        kind = FactKind.PREFERENCE if preference else FactKind.FACT
        return FACT.dump(await self._memory.remember(text, by=LOCAL_OWNER, kind=kind, pinned=pinned))

    async def edit(self, prefix: str, text: str | None, pinned: bool | None) -> Json:
        """Replace the text of a fact by a new fact, pin it, or both."""
        return FACT.dump(await self._memory.review.edit(prefix, text, by=LOCAL_OWNER, viewer=OWN, pinned=pinned))

    async def accept(self, prefix: str, replaces: str) -> Json:
        return FACT.dump(await self._memory.review.accept(prefix, by=LOCAL_OWNER, viewer=OWN, replaces=replaces))

    async def reject(self, prefix: str) -> Json:
        return FACT.dump(await self._memory.review.reject(prefix, by=LOCAL_OWNER, viewer=OWN))

    async def confirm(self, prefix: str) -> Json:
        return FACT.dump(await self._memory.review.confirm(prefix, by=LOCAL_OWNER, viewer=OWN))

    async def why(self, prefix: str) -> Json:
        return HISTORY.dump(history_of(await self._memory.review.why(prefix, viewer=OWN)))

    async def document(self, prefix: str) -> Json:
        found = await self._memory.store.documents.find(prefix, viewer=OWN)
        return {**DOCUMENT.dump(found), "text": await self._text(found)}

    async def _text(self, document: Document) -> str:
        return "".join(each.text for each in await self._memory.store.passages.read(document.document_id))

    async def forget(self, prefix: str, *, erase: bool, runs: bool) -> Json:
        done = await self._memory.review.forget(prefix, by=LOCAL_OWNER, viewer=OWN, erase=erase)
        if runs:
            done = done._replace(left=await self._remove(done.left))
        return FORGOTTEN.dump(forgotten_fact(done, erased=erase))

    async def forget_document(self, prefix: str, *, runs: bool) -> Json:
        done = await self._memory.forget_document(prefix, by=LOCAL_OWNER, viewer=OWN)
        if runs:
            done = done._replace(left=await self._remove(done.left))
        return FORGOTTEN.dump(forgotten_document(done))

    async def _remove(self, left: Remains) -> Remains:
        return await self._memory.remove_remains(left, owner=LOCAL_OWNER, by=this_person())

    async def export(self) -> str:
        return export_facts(await self._memory.store.facts.list(FactQuery(viewer=OWN, limit=MAX_FACTS)))

    async def import_(self, text: str, source: str, *, accept: bool) -> Json:
        """Add the facts of an export; they wait for a review, unless whoever imports them vouches for them."""
        made = await self._memory.import_facts(text, owner=LOCAL_OWNER, source=source, vouched=accept)
        return IMPORTED.dump(imported_facts(made))


def warn_if_unencrypted(at: Place) -> None:
    """Say that what was added to a folder is not encrypted, where all runs are. A server says so in its answers."""
    if at.url() is None and configuration(at.root()).config.encryption == "all":
        print_warning(f"{UNENCRYPTED}. Use an encrypted disk, or add nothing that must not be read there.")


def at_memory(at: Place, work: Callable[[MemoryAccess], Awaitable[T]]) -> T:
    """Do something with the documents and facts of a folder, or of a server."""
    url = at.url()
    if url is not None:
        from agent_fabric.interfaces.cli.memory.memory_places_remote import ServerMemory  # noqa: PLC0415 - aiohttp takes time

        async def go_there(client: "FabricClient") -> T:
            return await work(ServerMemory(client))

        return with_client(url, go_there)
    root = at.root()
    config: Any = configuration(root).config

    async def go() -> T:
        with open_records(root) as records:
            return await work(LocalMemory(open_memory(records, config)))

    return asyncio.run(go())
