"""The documents and facts of a fabric folder, with the methods of the client."""

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_fabric.application.ports.memory import MAX_FACTS, DocumentQuery, FactQuery, NewDocument, Remains
from agent_fabric.bootstrap.records import Records, this_person
from agent_fabric.bootstrap.this_machine import acting_run
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Viewer, Visibility
from agent_fabric.domain.memory.documents import UNENCRYPTED
from agent_fabric.domain.memory.facts import FactKind, FactStatus
from agent_fabric.domain.memory.markdown import export_facts
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.output import print_warning
from agent_fabric.interfaces.cli.place import Noun, Place, in_store
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
    from agent_fabric.bootstrap.memory import Memory
    from agent_fabric.client.memory import Memory as ServerMemory

OWN = Viewer((LOCAL_OWNER,), sees_all=False)
"""Facts of other people are none of ours, even in our own folder."""


class LocalMemory:
    """The documents and facts of a fabric folder."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._store = records.storage.memory

    @cached_property
    def _memory(self) -> "Memory":
        """The use cases. What only lists needs neither them nor the configuration."""
        from agent_fabric.bootstrap.memory import open_memory  # noqa: PLC0415 - see above

        return open_memory(self._records, configuration(self._records.layout.root).config)

    async def add(self, source: str, data: bytes, *, labels: Sequence[str], visibility: str) -> Json:
        new = NewDocument(data=data, source=source, owner=LOCAL_OWNER, visibility=Visibility(visibility), labels=labels)
        return DOCUMENT.dump(await self._memory.add(new, on_progress=_print_progress))

    @property
    def searches_words_only(self) -> bool:
        """Whether nothing here compares meaning."""
        return self._memory.search.embedder is None

    async def search(self, question: str, *, limit: int, labels: Sequence[str]) -> Sequence[Json]:
        wanted = DocumentQuery(viewer=OWN, labels=tuple(labels), sealed_facts=not acting_run())
        return [FOUND.dump(each) for each in found_items(await self._memory.search(question, wanted, limit=limit))]

    async def documents(self) -> Sequence[Json]:
        found = await self._store.documents.list(DocumentQuery(viewer=OWN, limit=1_000))
        return [DOCUMENT.dump(each) for each in found]

    async def facts(self, status: str = "") -> Sequence[Json]:
        query = FactQuery(viewer=OWN, statuses=(FactStatus(status),) if status else ())
        return [FACT.dump(each) for each in await self._store.facts.list(query)]

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
        found = await self._store.documents.find(prefix, viewer=OWN)
        passages = await self._store.passages.read(found.document_id)
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

    async def _remove(self, left: "Remains") -> "Remains":
        return await self._memory.remove_remains(left, owner=LOCAL_OWNER, by=this_person())

    async def export(self) -> str:
        return export_facts(await self._store.facts.list(FactQuery(viewer=OWN, limit=MAX_FACTS)))

    async def import_(self, text: str, *, source: str, accept: bool) -> Json:
        """Add the facts of an export; they wait for a review, unless `accept` vouches for them."""
        made = await self._memory.import_facts(text, owner=LOCAL_OWNER, source=source, vouched=accept)
        return IMPORTED.dump(imported_facts(made))


def warn_if_unencrypted(at: Place) -> None:
    """Say that what was added to a folder is not encrypted, where all runs are. A server says so in its answers."""
    if at.url() is None and configuration(at.root()).config.encryption == "all":
        print_warning(f"{UNENCRYPTED}. Use an encrypted disk, or add nothing that must not be read there.")


MEMORY = Noun(in_store(LocalMemory), lambda client: client.memory)
MemoryAccess: TypeAlias = "LocalMemory | ServerMemory"


def _print_progress(done: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done:,} passages read")
        sys.stderr.flush()


def is_page(what: str) -> bool:
    """Tell whether something to add is an address."""
    return what.startswith(("http://", "https://"))
