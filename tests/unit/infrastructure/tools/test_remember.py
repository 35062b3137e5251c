"""The tool that proposes facts."""

from dataclasses import replace

import pytest

from agent_fabric.application.memory.propose_fact import ProposeFact
from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.memory import FactQuery, RunMemory
from agent_fabric.config.schema.memory import MemoryConfig
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.memory.learning import Learning
from agent_fabric.domain.tools.specs import ToolContext
from agent_fabric.infrastructure.tools.memory_search import Remember
from agent_fabric.testing.fakes import nothing_known
from contract.run_repository_contract import RUN, log, run_created
from memory_storage import MemoryStorage

CONTEXT = ToolContext(run_id=RUN, call_id=CallId("c"), timeout_s=5, network_allowed=False)
POOL = {"text": "The pool opens at 9", "quote": "the pool opens at 9"}


async def tool(learning: Learning = Learning.REVIEW) -> tuple[MemoryStorage, Remember]:
    storage = MemoryStorage()
    created = replace(run_created("By the way, the pool opens at 9."), owner="user:ada")
    await (await storage.runs.create(RUN, log(created))).release()
    propose = ProposeFact(storage.memory.facts, storage.runs, storage.clock, learning)
    search = SearchMemory(storage.memory, storage.clock)
    return storage, Remember(lambda: RunMemory(search, propose, storage.memory.uses, nothing_known))


async def test_a_proposal_waits_for_a_person() -> None:
    storage, remember = await tool()
    result = await remember(POOL, CONTEXT)
    assert result.output["status"] == "proposed"
    (fact,) = await storage.memory.facts.list(FactQuery())
    assert (fact.id, fact.owner, fact.said_by, fact.source_seq) == (result.output["id"], "user:ada", "user:ada", 0)


@pytest.mark.parametrize(
    ("args", "problem"),
    [({**POOL, "quote": "the sauna opens at 9"}, "neither"), ({**POOL, "text": "x" * 401}, "at most 400")],
)
async def test_a_refusal_is_an_answer_for_the_model(args: dict[str, str], problem: str) -> None:
    storage, remember = await tool()
    result = await remember(args, CONTEXT)
    assert not result.success
    assert problem in result.error
    assert await storage.memory.facts.list(FactQuery()) == []


async def test_learning_can_be_off_and_proposing_twice_does_nothing() -> None:
    _, remember = await tool(Learning.OFF)
    assert "off" in (await remember(POOL, CONTEXT)).error
    storage, remember = await tool()
    await remember(POOL, CONTEXT)
    assert "says the same" in (await remember(POOL, CONTEXT)).error
    assert len(await storage.memory.facts.list(FactQuery())) == 1


def test_off_is_off_as_yaml_writes_it() -> None:
    assert MemoryConfig.model_validate({"learning": False}).learning == "off"
    assert {Learning(each) for each in ("off", "review", "auto")} == set(Learning)
