"""Steps that look up documents and facts, and propose what is to be remembered."""

from pathlib import Path

import pytest

from agent_fabric.application.ports.memory import DocumentQuery, FactQuery, NewDocument
from agent_fabric.bootstrap.memory import ingestion_task, open_memory
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.memory.facts import FactStatus
from agent_fabric.domain.memory.ingestion import INGESTION, outcome_of
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.infrastructure.memory.local_documents import files_in
from integration.workflows.test_driving import Bench, bench

__all__ = ["bench"]

FIND = {"id": "find", "action": "search-memory", "inputs": {"query": "{{ inputs.question }}"}}
PROPOSE = {
    "id": "propose",
    "action": "propose-fact",
    "depends_on": ["find"],
    "inputs": {"text": "The pool opens at 9", "quote": "The pool opens at nine."},
}
ASKED = {"question": {"type": "string"}}


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the encoder would take longer than all of this."""

    def missing(_: object) -> None:
        raise MissingExtra("embeddings", needed_for="Search by meaning")

    monkeypatch.setattr(SentenceEncoder, "__init__", missing)


@pytest.mark.proves("ME-7", "ME-11")
async def test_a_step_finds_a_passage_and_another_one_proposes_what_it_says(bench: Bench) -> None:
    memory = open_memory(bench.fabric.records, bench.workflows.config)
    text = b"# Handbook\n\nThe pool opens at nine.\n"
    await memory.add(NewDocument(data=text, source="handbook.md", owner=LOCAL_OWNER))
    done = await bench.run(FIND, PROPOSE, given={"question": "When does the pool open?"}, inputs=ASKED)
    assert done.status is RunStatus.COMPLETED, done.error
    assert "the document “Handbook”" in done.untrusted
    (fact,) = await memory.store.facts.list(FactQuery())
    assert (fact.status, fact.said_by) == (FactStatus.PROPOSED, "the document “Handbook”")
    assert fact.untrusted == ("the document “Handbook”",)
    again = await bench.run(PROPOSE | {"depends_on": []}, given={"question": "x"}, inputs=ASKED)
    assert again.status is RunStatus.FAILED, "nothing in this run says so"


@pytest.mark.proves("ME-1", "ME-2")
async def test_adding_a_folder_is_a_run_that_reads_what_is_new_and_names_what_it_cannot_read(
    bench: Bench, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# Pool\n\nThe pool opens at nine.\n")
    (folder / "b.md").write_text(" ")
    (folder / "c.png").write_bytes(b"x")
    files = files_in(folder, most=10)
    assert files.skipped == "1 .png"
    task = ingestion_task(
        bench.workflows, files=[str(each) for each in files.files], pages=(), labels=["team"], team=False
    )
    done = await bench.fabric.execute_task(task)
    assert done.status is RunStatus.COMPLETED, done.error
    assert all(step.idempotent for step in definition_from(INGESTION).all_steps() if step.action != "for-each"), (
        "killed in the middle of one, it goes on without asking"
    )
    outcome = outcome_of(done)
    assert [each["source"] for each in outcome["added"]] == [str(folder / "a.md")]
    assert [each["problem"] for each in outcome["problems"]] == [f"{folder / 'b.md'} is empty"]
    memory = open_memory(bench.fabric.records, bench.workflows.config)
    known = {each.source: each for each in await memory.store.documents.list(DocumentQuery())}
    read = known[str(folder / "a.md")]
    assert (read.run_id, read.owner, read.labels) == (done.run_id, LOCAL_OWNER, ("team",))
    assert known[str(folder / "b.md")].problem
    again = await bench.fabric.execute_task(task)
    assert outcome_of(again)["added"][0]["id"] == read.document_id
    assert (await memory.store.documents.find(read.document_id)).updated_at == read.updated_at, "nothing was read again"


async def test_no_workflow_file_can_name_the_actions_that_read_files_of_this_machine(bench: Bench) -> None:
    text = "name: x\nsteps: [{id: a, action: add_document_file, inputs: {path: /etc/passwd}}]"
    assert bench.workflows.check_text(Path("x.yaml"), text).problems
