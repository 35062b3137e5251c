"""The table of questions: found by the beginning of an id, answered once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalStatus
from agent_fabric.domain.approvals import Decision
from agent_fabric.domain.errors import ApprovalNotFound, ApprovalSettled
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.approvals import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.event_store import SqliteRunRepository
from agent_fabric.infrastructure.persistence.run_queue import SqlRunQueue
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.testing.fakes import FrozenClock, PermissivePolicy
from agent_fabric.testing.workbench import workbench
from unit.application.approvals.test_asking_a_person import DONE, Outside
from unit.application.test_engine_on_stand_ins import answers

Asked = tuple[Store, ApprovalCard]


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    """A store with one run that waits for an answer."""
    store = Store(tmp_path / "fabric.db")
    runs = SqliteRunRepository(store, SystemClock(), ())
    policy = PermissivePolicy(frozenset({"send"}))
    bench = workbench(Outside().pack, answers(("send", '{"text": "hi"}'), DONE), runs=runs, policy=policy)  # type: ignore[arg-type]  # any repository
    await bench.run()
    (card,) = await SqlApprovalRepository(store, FrozenClock()).list()
    yield store, card
    store.close()


async def test_a_question_is_found_by_the_beginning_of_its_id(asked: Asked) -> None:
    store, card = asked
    book = SqlApprovalRepository(store, FrozenClock())
    assert await book.find(card.approval_id[:4]) == card
    assert await book.find(card.approval_id) == card


@pytest.mark.parametrize("prefix", ["", "0", "%%%%", "____", "\udcff" * 4, "\0\0\0\0", "x" * 10_000])
async def test_what_is_no_beginning_of_an_id_finds_nothing_even_if_only_one_waits(asked: Asked, prefix: str) -> None:
    store, _ = asked
    with pytest.raises(ApprovalNotFound) as raised:
        await SqlApprovalRepository(store, FrozenClock()).find(prefix)
    assert "fabric approvals list" in raised.value.hint


async def test_of_many_who_answer_at_once_through_stores_of_their_own_one_wins(asked: Asked) -> None:
    store, card = asked
    stores = [Store(store.path) for _ in range(4)]
    books = [SqlApprovalRepository(each, FrozenClock()) for each in stores]
    given = [
        book.answer(card.approval_id, Answer(decision=decision, by=f"person {number}", via="test"))
        for number, book in enumerate(books)
        for decision in (Decision.APPROVE, Decision.DENY)
    ]
    ended = await asyncio.gather(*given, return_exceptions=True)
    for each in stores:
        each.close()
    lost = [each for each in ended if each is not None]
    assert len(lost) == len(given) - 1
    assert all(isinstance(each, ApprovalSettled) and "already" in each.message for each in lost)
    settled = await SqlApprovalRepository(store, FrozenClock()).find(card.approval_id)
    assert settled.status in {ApprovalStatus.APPROVED, ApprovalStatus.DENIED}


async def test_an_answer_after_the_time_is_up_is_none(asked: Asked) -> None:
    store, card = asked
    late = SqlApprovalRepository(store, FrozenClock(time=card.expires_at))
    with pytest.raises(ApprovalSettled, match="expired"):
        await late.answer(card.approval_id, Answer(decision=Decision.APPROVE, by="ada", via="test"))
    assert await SqlRunQueue(store, FrozenClock(time=card.expires_at)).due() == [card.run_id]
