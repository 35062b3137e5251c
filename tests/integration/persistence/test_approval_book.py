"""The table of questions: found by the beginning of an id, answered once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalStatus
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.errors import ApprovalNotFound, ApprovalRefused, ApprovalSettled
from agent_fabric.domain.events import Event, RunCancelled, RunCreated
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.approvals.questions import SqlApprovalRepository
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.log_inspector import Projection, run_row
from agent_fabric.infrastructure.persistence.runs.run_queue import SqlRunQueue
from agent_fabric.infrastructure.persistence.sql import SqlConnection
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
    runs = SqlRunRepository(store, SystemClock(), ())
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


@pytest.mark.proves("WA-6", "WA-11")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("tool_name = 'read_file'", "not what the log says: tool"),
        ("arguments = CAST('{}' AS BLOB)", "not what the log says: args"),
        ("expires_at = expires_at + 9e9", "not what the log says: expires_at"),
        ("card = CAST(replace(CAST(card AS TEXT), 'send', 'read') AS BLOB)", "not what the log says"),
        ("arguments = CAST('{' AS BLOB)", "cannot be read"),
        ("card = CAST('[]' AS BLOB)", "cannot be read"),
        ("status = 'approve me'", "cannot be read"),
    ],
)
async def test_a_changed_row_is_shown_in_the_words_of_the_log_and_cannot_be_answered(
    asked: Asked, change: str, says: str
) -> None:
    store, card = asked
    await store.write(lambda connection: connection.execute(f"UPDATE pending_approvals SET {change}"))
    (shown,) = await SqlApprovalRepository(store, FrozenClock()).list(pending_only=False)
    assert says in shown.damage
    assert replace(shown, damage="") == card
    runs = SqlRunRepository(store, SystemClock(), ())
    decide = DecideApproval(SqlApprovalRepository(store, FrozenClock()), runs, PermissivePolicy)
    with pytest.raises(ApprovalRefused, match="is damaged"):
        await decide(card.approval_id, Answer(decision=Decision.APPROVE, by="me", via="test"), by=owner_here())


@pytest.mark.proves("WA-11")
async def test_a_question_that_its_log_does_not_have_shows_no_words_and_the_others_are_listed(asked: Asked) -> None:
    store, card = asked
    forged = (
        "INSERT INTO pending_approvals"
        " (id, run, execution_id, tool_name, arguments, status, created_at, expires_at, card)"
        " SELECT 'forged', run, execution_id, 'harmless', arguments, status, created_at, expires_at, card"
        " FROM pending_approvals"
    )
    await store.write(lambda connection: connection.execute(forged))
    shown = {each.approval_id: each for each in await SqlApprovalRepository(store, FrozenClock()).list()}
    assert shown.pop(card.approval_id) == card
    assert (shown["forged"].tool, shown["forged"].args) == ("(damaged)", {})
    assert "log of its run does not have it" in shown["forged"].damage


@pytest.mark.proves("WA-10")
@pytest.mark.parametrize("owner", ["", "local"])
async def test_an_answer_that_a_cancelled_run_never_read_is_no_damage_in_a_run_of_0_5(asked: Asked, owner: str) -> None:
    store, card = asked
    first, *rest = await SqlRunRepository(store, SystemClock(), ()).read(card.run_id)
    assert isinstance(first.body, RunCreated)
    created = replace(first.body, owner=owner)
    first = first._replace(body=created)
    projection = Projection(card.run_id)
    for event in (first, *rest, Event(len(rest) + 1, first.ts, None, "", RunCancelled(reason="", by="me"))):
        projection.follow(event)
    status = "UPDATE runs SET status = 'cancelled', owner = ?, visibility = ?"
    decided = "UPDATE pending_approvals SET status = 'approved', decided_by = 'me', decided_at = 1.0"  # as 0.5 left it
    await store.write(lambda connection: connection.execute(status, (owner, created.visibility)))
    await store.write(lambda connection: connection.execute(decided))

    def damage(connection: SqlConnection) -> list[str]:
        return list(projection.damage(connection, store.keys, run_row(connection, card.run_id), None))

    noticed = (
        [] if not owner else [f"approval {card.approval_id} is not what its log says: status, decided_by, decided_at"]
    )
    assert await store.read(damage) == noticed
