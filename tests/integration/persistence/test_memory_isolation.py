"""Among many documents of many owners, each finds their own, however alike the others are."""

from pathlib import Path

import pytest

from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.memory import DocumentQuery
from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.passages import split_passages
from agent_fabric.domain.ownership import Viewer
from effort import effort, report

OWNERS = 20


@pytest.mark.proves("ME-5", "ME-12")
async def test_owners_find_only_their_own_among_documents_that_are_alike(tmp_path: Path) -> None:
    count = effort(200, 10_000)
    with open_records(tmp_path / ".fabric") as records:
        memory = records.storage.memory
        for number in range(count):
            owner = f"user:{number % OWNERS}"
            document = Document(
                document_id=DocumentId(f"{number:016x}"),
                owner=owner,
                title="Handbook",
                source=f"/{number}.md",
                content_hash=str(number),
            )
            await memory.documents.put(document)
            await memory.passages.replace(document, split_passages(f"The pool opens at nine, says page {number}."))
        search = SearchMemory(memory, records.storage.clock)
        for person in range(OWNERS):
            viewer = Viewer((f"user:{person}",), sees_all=False)
            found = await search("When does the pool open?", DocumentQuery(viewer=viewer), limit=50)
            assert found.passages
            assert {each.document.owner for each in found.passages} == {f"user:{person}"}
            own = await memory.documents.list(DocumentQuery(viewer=viewer, limit=count))
            assert len(own) == count // OWNERS
    report("documents of twenty owners, each of whom finds only their own", count)
