"""Steps that look up documents and facts, and propose what is to be remembered."""

import pytest

from agent_fabric.application.memory.add_document import NewDocument
from agent_fabric.application.ports.memory import FactQuery
from agent_fabric.bootstrap.memory import open_memory
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.domain.memory.facts import FactStatus
from agent_fabric.domain.ownership import LOCAL_OWNER
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.embeddings.sentence_encoder import SentenceEncoder
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
    assert "the document Handbook" in done.untrusted
    (fact,) = await memory.store.facts.list(FactQuery())
    assert (fact.status, fact.said_by) == (FactStatus.PROPOSED, "documents in memory")
    assert fact.untrusted == ("the document Handbook",)
    again = await bench.run(PROPOSE | {"depends_on": []}, given={"question": "x"}, inputs=ASKED)
    assert again.status is RunStatus.FAILED, "nothing in this run says so"
