"""The tool that looks up documents and facts: quoted data with a source, never instructions."""

from dataclasses import replace
from pathlib import Path

from agent_fabric.application.memory.add_document import AddDocument
from agent_fabric.application.memory.propose_fact import ProposeFact, RememberFact
from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.memory import NewDocument, RunMemory
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.runs.knowledge import NOTHING, PRIVATE
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.memory.document_files import DocumentFiles
from agent_fabric.infrastructure.runs.log.snapshots import SnapshotFolder
from agent_fabric.infrastructure.tools.memory_search import MEMORY_SEARCH, MemorySearch
from agent_fabric.testing.fakes import nothing_known
from contract.run_repository_contract import RUN, log, run_created
from memory_storage import MemoryStorage

CONTEXT = ToolContext(run_id=RUN, call_id=CallId("c"), timeout_s=5, network_allowed=False)


async def desk(folder: Path, owner: str = "user:ada") -> tuple[MemoryStorage, MemorySearch]:
    storage, shelf = MemoryStorage(), SnapshotFolder(folder / "snapshots")
    created = replace(run_created("look it up"), owner=owner)
    await (await storage.runs.create(RUN, log(created))).release()
    search = SearchMemory(storage.memory, storage.clock)
    propose = ProposeFact(storage.memory.facts, storage.runs, storage.clock)
    memory = RunMemory(search, propose, storage.memory.uses, nothing_known)
    return storage, MemorySearch(lambda: memory, storage.catalogue, shelf, storage.clock)


async def add(
    storage: MemoryStorage, text: str, owner: str = "user:ada", visibility: Visibility = Visibility.PRIVATE
) -> None:
    new = NewDocument(data=text.encode(), source="/handbook.md", owner=owner, visibility=visibility)
    await AddDocument(storage.memory, DocumentFiles(), storage.clock)(new)


async def test_a_passage_comes_with_its_place_and_can_be_cited(tmp_path: Path) -> None:
    storage, tool = await desk(tmp_path)
    await add(storage, "# Handbook\n\nThe pool opens at nine.")
    result = await tool({"query": "When does the pool open?"}, CONTEXT)
    (passage,) = result.output["passages"]
    assert passage["text"] == "# Handbook\n\nThe pool opens at nine."
    assert passage["shown"] == "whole"
    assert [(source.url, source.text) for source in result.sources] == [(passage["url"], passage["text"])]
    assert (result.exposes, result.private) == ("the document “Handbook”", PRIVATE)


async def test_without_anything_that_fits_it_says_so(tmp_path: Path) -> None:
    storage, tool = await desk(tmp_path)
    await add(storage, "# Handbook\n\nThe pool opens at nine.")
    result = await tool({"query": "Who won the cup in 1954?"}, CONTEXT)
    assert (result.output["passages"], result.output["note"], result.exposes, result.private) == ([], NOTHING, "", "")


async def test_facts_are_told_with_their_id_and_their_use_is_noted(tmp_path: Path) -> None:
    storage, tool = await desk(tmp_path)
    fact = await RememberFact(storage.memory.facts, storage.clock)("The pool opens at 9", by="user:ada")
    result = await tool({"query": "When does the pool open?"}, CONTEXT)
    assert result.output["facts"] == [{"id": fact.citation, "text": fact.text, "said_by": "user:ada"}]
    assert [use.run_id for use in await storage.memory.uses.of(fact.id)] == [RUN]
    assert result.exposes == ""


async def test_a_run_finds_only_what_is_its_owners_even_in_the_owners_folder(tmp_path: Path) -> None:
    storage, tool = await desk(tmp_path, owner="local")
    await add(storage, "# Handbook\n\nThe pool opens at nine.")
    await RememberFact(storage.memory.facts, storage.clock)("The pool opens at 9", by="user:ada")
    result = await tool({"query": "When does the pool open?"}, CONTEXT)
    assert (result.output["passages"], result.output["facts"]) == ([], [])
    await add(storage, "# Handbook\n\nThe pool opens at nine.", visibility=Visibility.TEAM)
    assert (await tool({"query": "When does the pool open?"}, CONTEXT)).output["passages"]


def test_the_tool_has_the_name_that_proposals_know() -> None:
    assert MEMORY_SEARCH.name == "memory_search"
