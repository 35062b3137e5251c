"""What every Storage promises, whatever database is behind it: the suites of all its ports, on one store."""

import asyncio
import time
from array import array
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalStatus
from agent_fabric.application.ports.automation import DeadLetter, LetterKind
from agent_fabric.application.ports.bus import BusMessage, OutboxRow
from agent_fabric.application.ports.idempotency import KeptAnswer
from agent_fabric.application.ports.identity import ApiKeyRepository, EndedLogins, UserRepository
from agent_fabric.application.ports.limits import Limiter
from agent_fabric.application.ports.runs import APPROVAL, SIGNAL, RunQuery, RunRepository
from agent_fabric.application.ports.storage import Storage
from agent_fabric.application.ports.webhooks import NewDelivery
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.errors import ApprovalNotFound, ApprovalSettled, RunHeld, RunNotFound
from agent_fabric.domain.events import RunCancelled, RunFailed, RunInterrupted, RunWaited
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, Visibility
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.workflows.events import StepStarted
from agent_fabric.infrastructure.identity.limits.window_limiter import WindowLimiter
from agent_fabric.testing.fakes import FrozenClock
from contract.automation_contract import AutomationContract
from contract.chat_contract import ChatContract
from contract.evals_contract import EvalContract
from contract.fleet_contract import FleetContract
from contract.identity_contract import ADA, ApiKeyRepositoryContract, EndedLoginsContract, UserRepositoryContract
from contract.limiter_contract import LimiterContract
from contract.memory_contract import MemoryContract
from contract.run_repository_contract import (
    CREATED,
    NEXT,
    NOBODY,
    OTHER,
    RUN,
    WORKFLOW,
    RunRepositoryContract,
    completed,
    log,
    run_created,
    workflow_with,
)

START = 1_000_000.0
APPROVE = Answer(decision=Decision.APPROVE, by="ada", via="test", reason="fine")


@dataclass(slots=True)
class SteadyClock(FrozenClock):
    """Clock whose date moves only when it is told to, while durations are real."""

    def monotonic(self) -> float:
        return time.monotonic()


def asked(approval_id: str, *, expires_at: float = START + 60) -> ApprovalRequested:
    return ApprovalRequested(
        approval_id=approval_id,
        call_id=CallId(f"call-{approval_id}"),
        tool="shell",
        args={"command": "rm é"},
        question=Question.MAY_IT_RUN,
        reason="It deletes.",
        rule="ask_rm",
        subject="rm",
        alike="rm *",
        agent="engineering",
        target="/nowhere",
        sandbox="none",
        untrusted=("a page",),
        policy_version="1",
        binding="b",
        args_hash="h",
        expires_at=expires_at,
    )


async def waiting(storage: Storage, run_id: RunId = RUN, *, until: float | None = None, asks: str = "") -> None:
    """Create a run that waits, for a time or for an answer, and that no process drives."""
    bodies: list[Any] = [run_created(), *([asked(asks)] if asks else [])]
    wait = RunWaited(reason="to see", approvals=(asks,) if asks else (), until=until)
    await (await storage.runs.create(run_id, log(*bodies, wait))).release()


async def settled(storage: Storage, run_id: RunId, prompt: str = "do it", summary: str = "done") -> None:
    held = await storage.runs.create(run_id, log(run_created(prompt)))
    await held.append(log(completed(run_id, summary), first=1))
    await held.release()


def numbered(number: int) -> RunId:
    return RunId(f"{number:08x}-0000-4000-8000-000000000000")


OWNED = {
    numbered(1): ("local", Visibility.TEAM),
    numbered(2): ("key:ci", Visibility.TEAM),
    numbered(3): ("user:ada", Visibility.PRIVATE),
    numbered(4): ("user:eve", Visibility.PRIVATE),
}
VIEWERS = {
    EVERYTHING: {"local", "key:ci", "user:ada", "user:eve"},
    Viewer(("user:ada",), sees_all=False): {"local", "key:ci", "user:ada"},
    Viewer(("user:bob",), sees_all=False): {"local", "key:ci"},
}


async def owned_runs(storage: Storage, *, asks: bool = False) -> None:
    """Create a run for each owner."""
    for number, (run_id, (owner, visibility)) in enumerate(OWNED.items(), 1):
        created = replace(run_created("count the otters"), owner=owner, visibility=visibility)
        bodies: list[Any] = [created]
        if asks:
            approval = f"{number:012d}"
            bodies += [asked(approval), RunWaited(reason="to see", approvals=(approval,))]
        await (await storage.runs.create(run_id, log(*bodies))).release()


async def refused(finding: Awaitable[object]) -> RunNotFound:
    """Return why a run is not found."""
    with pytest.raises(RunNotFound) as caught:
        await finding
    return caught.value


class RunReaderContract:
    async def test_a_page_of_events_goes_on_where_the_last_one_ended(self, storage: Storage) -> None:
        await (await storage.runs.create(RUN, [*CREATED, *NEXT])).release()
        assert list(await storage.reader.page(RUN, after=-1, limit=2)) == [*CREATED, NEXT[0]]
        assert list(await storage.reader.page(RUN, after=1, limit=2)) == [NEXT[1]]
        assert list(await storage.reader.page(RUN, after=2, limit=2)) == []
        assert await storage.reader.newest(RUN) == NEXT[1]

    async def test_a_run_without_a_driver_counts_as_interrupted(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, CREATED)
        assert await storage.reader.status(RUN) is RunStatus.RUNNING
        await held.release()
        assert await storage.reader.status(RUN) is RunStatus.INTERRUPTED
        held, _, _ = await storage.runs.take(RUN)
        await held.append(log(completed(RUN), first=1))
        await held.release()
        assert await storage.reader.status(RUN) is RunStatus.COMPLETED

    async def test_one_look_tells_how_far_runs_have_come(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, CREATED)
        await (await storage.runs.create(OTHER, [*CREATED, *NEXT])).release()
        found = await storage.reader.progress([RUN, OTHER, NOBODY])
        assert found == {RUN: (RunStatus.RUNNING, 0), OTHER: (RunStatus.INTERRUPTED, 2)}
        await held.release()
        assert await storage.reader.progress([RUN]) == {RUN: (RunStatus.INTERRUPTED, 0)}
        assert await storage.reader.progress([]) == {}

    async def test_nothing_is_read_of_a_run_that_does_not_exist(self, storage: Storage) -> None:
        for reading in (
            storage.reader.status(NOBODY),
            storage.reader.newest(NOBODY),
            storage.reader.page(NOBODY, after=-1, limit=1),
        ):
            with pytest.raises(RunNotFound):
                await reading


class RunListingContract:
    async def test_runs_are_listed_newest_first_with_what_they_are_about(self, storage: Storage) -> None:
        await settled(storage, RUN, "Paint the shed", "It is green")
        held = await storage.runs.create(OTHER, log(run_created("Fix the pump")))
        await held.append(log(RunFailed(code="model", message="No pump", hint=""), first=1))
        await held.release()
        newest, oldest = await storage.catalogue.recent(limit=-1)
        assert (newest.run_id, newest.status, newest.prompt, newest.summary) == (
            OTHER,
            RunStatus.FAILED,
            "Fix the pump",
            "No pump",
        )
        assert (oldest.run_id, oldest.prompt, oldest.summary) == (RUN, "Paint the shed", "It is green")
        assert oldest.updated_at == 1_001.5
        assert [each.run_id for each in await storage.catalogue.recent(limit=1)] == [OTHER]

    async def test_search_finds_words_of_tasks_and_summaries_best_first(self, storage: Storage) -> None:
        await settled(storage, RUN, "Paint the shed", "It is green")
        await settled(storage, OTHER, "Paint the fence", "It is white")
        assert [each.run_id for each in await storage.catalogue.search("GREEN shed", limit=9)] == [RUN]
        assert (await storage.catalogue.search("paint white", limit=9))[0].run_id == OTHER
        assert len(await storage.catalogue.search("paint", limit=1)) == 1
        assert await storage.catalogue.search("nothing", limit=9) == []
        assert await storage.catalogue.search("  ", limit=9) == []

    async def test_an_id_is_completed_if_it_is_the_only_one(self, storage: Storage) -> None:
        await settled(storage, RUN)
        await settled(storage, OTHER)
        assert await storage.catalogue.find(RUN) == RUN
        assert await storage.catalogue.find(RUN.upper()) == RUN
        for prefix in ("", "0000", "ffff", "%", "half \ud800"):
            with pytest.raises(RunNotFound):
                await storage.catalogue.find(prefix)

    async def test_the_newest_run_is_none_that_works_for_another(self, storage: Storage) -> None:
        with pytest.raises(RunNotFound):
            await storage.catalogue.newest()
        held, _ = await workflow_with(storage.runs, "a")
        assert await storage.catalogue.newest() == RUN
        await held.release()

    async def test_a_private_run_exists_only_for_its_owner_and_who_sees_all(self, storage: Storage) -> None:
        await owned_runs(storage)
        await storage.catalogue.update_index()
        for viewer, seen in VIEWERS.items():
            page = await storage.catalogue.page(RunQuery(viewer=viewer))
            assert {record.owner: record.visibility for record in page.records} == {
                owner: visibility for owner, visibility in OWNED.values() if owner in seen
            }
            found = await storage.catalogue.search("otters", limit=10, viewer=viewer)
            assert {record.owner for record in found} == seen
            for run_id, (owner, visibility) in OWNED.items():
                if owner in seen:
                    assert await storage.catalogue.locate(run_id, viewer=viewer) == (run_id, owner, visibility)
                    continue
                with pytest.raises(RunNotFound):
                    await storage.catalogue.locate(run_id, viewer=viewer)
                assert run_id not in str(await refused(storage.catalogue.locate("0000000", viewer=viewer)))
        assert await storage.catalogue.newest(viewer=Viewer(("user:bob",), sees_all=False)) == numbered(2)
        for run_id, (owner, _) in OWNED.items():
            assert await storage.catalogue.newest(owner=owner) == run_id
        with pytest.raises(RunNotFound):
            await storage.catalogue.newest(owner="user:nobody")

    async def test_runs_are_found_by_owner(self, storage: Storage) -> None:
        await owned_runs(storage)
        for wanted, owners in (("user:ada", ["user:ada"]), ("ada", ["user:ada"]), ("local", ["local"]), ("nobody", [])):
            page = await storage.catalogue.page(RunQuery(owner=wanted))
            assert [record.owner for record in page.records] == owners

    async def test_pages_hold_every_run_once(self, storage: Storage) -> None:
        for number in range(7):
            await settled(storage, numbered(number))
        seen: list[RunId] = []
        page = await storage.catalogue.page(RunQuery(limit=3))
        while True:
            seen += [record.run_id for record in page.records]
            if page.older_than is None:
                break
            page = await storage.catalogue.page(RunQuery(limit=3, older_than=page.older_than))
        assert seen == [numbered(number) for number in reversed(range(7))]

    async def test_a_page_has_only_what_was_asked_for(self, storage: Storage) -> None:
        await settled(storage, RUN, "Paint the shed", "It is green")
        await (await storage.runs.create(OTHER, log(run_created("Paint the fence")))).release()

        async def found(**wanted: Any) -> list[RunId]:
            return [record.run_id for record in (await storage.catalogue.page(RunQuery(**wanted))).records]

        assert await found(status=RunStatus.COMPLETED) == [RUN]
        assert await found(status=RunStatus.INTERRUPTED) == [OTHER]
        assert await found(status=RunStatus.RUNNING) == []
        assert await found(words="green PAINT") == [RUN]
        assert await found(words="green fence") == []
        assert await found(conversation=OTHER) == [OTHER]
        awaited = await storage.catalogue.page(RunQuery(status=RunStatus.RUNNING), awaited={OTHER})
        assert [record.run_id for record in awaited.records] == [OTHER]


class TrialListingContract:
    async def test_trials_are_marked_and_can_be_left_out_or_alone(self, storage: Storage) -> None:
        await settled(storage, RUN)
        trial = replace(run_created("a trial"), trial_of="e1")
        await (await storage.runs.create(OTHER, log(trial))).release()
        listed = [each.run_id for each in (await storage.catalogue.page(RunQuery())).records]
        assert listed == [OTHER, RUN]
        (record,) = (await storage.catalogue.page(RunQuery(trial_of="e1"))).records
        assert (record.run_id, record.trial_of) == (OTHER, "e1")
        assert [each.run_id for each in (await storage.catalogue.page(RunQuery(trials=False))).records] == [RUN]
        assert await storage.catalogue.newest() == RUN


class RunQueueContract:
    async def test_unfinished_are_running_runs_without_a_driver_oldest_first(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, CREATED)
        await (await storage.runs.create(OTHER, CREATED)).release()
        assert list(await storage.queue.list_unfinished()) == [OTHER]
        await held.release()
        assert list(await storage.queue.list_unfinished()) == [RUN, OTHER]
        held, _, _ = await storage.runs.take(RUN)
        await held.append(log(RunInterrupted(reason="a person"), first=1))
        await held.release()
        assert list(await storage.queue.list_unfinished()) == [OTHER]

    async def test_a_child_is_continued_by_the_driver_of_its_parent(self, storage: Storage) -> None:
        held, (child,) = await workflow_with(storage.runs, "a")
        assert list(await storage.queue.list_unfinished()) == [child]
        await held.release()
        assert list(await storage.queue.list_unfinished()) == [RUN]

    async def test_a_waiting_run_is_due_when_something_is_in_its_inbox(self, storage: Storage) -> None:
        await waiting(storage)
        assert list(await storage.queue.due()) == []
        await storage.runs.post(RUN, SIGNAL, {"name": "go"})
        assert list(await storage.queue.due()) == [RUN]

    async def test_a_waiting_run_is_due_at_its_time_and_when_its_question_expires(
        self, storage: Storage, clock: FrozenClock
    ) -> None:
        await waiting(storage, RUN, until=START + 10)
        await waiting(storage, OTHER, asks="abcd1234")
        assert list(await storage.queue.due()) == []
        clock.time = START + 10
        assert list(await storage.queue.due()) == [RUN]
        clock.time = START + 60
        assert sorted(await storage.queue.due()) == [RUN, OTHER]


class ApprovalContract:
    async def test_a_question_comes_back_as_it_was_asked(self, storage: Storage) -> None:
        await waiting(storage, asks="abcd1234")
        (card,) = await storage.approvals.list()
        assert card == ApprovalCard(
            approval_id="abcd1234",
            run_id=RUN,
            call_id="call-abcd1234",
            tool="shell",
            args={"command": "rm é"},
            question=Question.MAY_IT_RUN,
            reason="It deletes.",
            rule="ask_rm",
            subject="rm",
            alike="rm *",
            agent="engineering",
            target="/nowhere",
            sandbox="none",
            untrusted=card.untrusted,
            private=card.private,
            policy_version="1",
            args_hash="h",
            binding="b",
            created_at=1_001.5,
            expires_at=START + 60,
            status=ApprovalStatus.PENDING,
        )
        assert list(card.untrusted) == ["a page"]
        assert await storage.approvals.find("abcd") == card
        assert list(await storage.approvals.list(run_id=OTHER)) == []

    async def test_a_question_of_a_private_run_exists_only_for_who_sees_the_run(self, storage: Storage) -> None:
        await owned_runs(storage, asks=True)
        for viewer, seen in VIEWERS.items():
            assert {card.owner for card in await storage.approvals.list(viewer=viewer)} == seen
            for number, (owner, _) in enumerate(OWNED.values(), 1):
                if owner in seen:
                    assert (await storage.approvals.find(f"{number:012d}", viewer=viewer)).owner == owner
                else:
                    with pytest.raises(ApprovalNotFound):
                        await storage.approvals.find(f"{number:012d}", viewer=viewer)

    async def test_a_question_is_found_only_by_enough_of_its_own_id(self, storage: Storage) -> None:
        await waiting(storage, asks="abcd1234")
        await waiting(storage, OTHER, asks="abcd5678")
        assert [card.approval_id for card in await storage.approvals.list()] == ["abcd1234", "abcd5678"]
        for prefix in ("", "abc", "abcd", "abcd9", "half \ud800"):
            with pytest.raises(ApprovalNotFound):
                await storage.approvals.find(prefix)
        assert (await storage.approvals.find("abcd5")).run_id == OTHER

    async def test_the_first_answer_wins_and_reaches_the_run(self, storage: Storage) -> None:
        await waiting(storage, asks="abcd1234")
        outcomes = await asyncio.gather(
            *(storage.approvals.answer("abcd1234", replace(APPROVE, by=who)) for who in ("ada", "bob")),
            return_exceptions=True,
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ApprovalSettled", "NoneType"]
        card = await storage.approvals.find("abcd1234")
        assert (card.status, card.decided_because, card.decided_at) == (ApprovalStatus.APPROVED, "fine", START)
        assert list(await storage.approvals.list()) == []
        assert len(await storage.approvals.list(pending_only=False)) == 1
        held, _, _ = await storage.runs.take(RUN)
        (row,) = await held.unread()
        assert (row.kind, row.payload["approval_id"], row.payload["by"]) == (APPROVAL, "abcd1234", card.decided_by)
        await held.release()

    async def test_a_card_tells_what_a_person_made_of_the_arguments(self, storage: Storage) -> None:
        for run_id, approval in ((RUN, "abcd1234"), (OTHER, "abcd5678")):
            await waiting(storage, run_id, asks=approval)
        changed = {"command": "rm ä"}
        await storage.approvals.answer("abcd1234", replace(APPROVE, args=changed))
        await storage.approvals.answer("abcd5678", APPROVE)
        assert (await storage.approvals.find("abcd1234")).changed == changed, "no driver has taken up the answer yet"
        assert (await storage.approvals.find("abcd5678")).changed is None
        held, _, _ = await storage.runs.take(RUN)
        (row,) = await held.unread()
        decided = ApprovalDecided(approval_id="abcd1234", decision=Decision.APPROVE, by="ada", args=changed)
        await held.append(log(decided, first=3), consumed=(row,))
        await held.release()
        card = await storage.approvals.find("abcd1234")
        assert (card.changed, card.args) == (changed, {"command": "rm é"})

    async def test_earlier_agreements_under_the_same_rule_are_counted(self, storage: Storage) -> None:
        for run_id, approval in ((RUN, "abcd1234"), (OTHER, "abcd5678")):
            await waiting(storage, run_id, asks=approval)
        card = await storage.approvals.find("abcd5678")
        assert await storage.approvals.agreed_before(card) == 0
        await storage.approvals.answer("abcd1234", APPROVE)
        assert await storage.approvals.agreed_before(card) == 1
        assert await storage.approvals.agreed_before(replace(card, rule="another")) == 0
        await storage.approvals.answer("abcd5678", APPROVE)
        assert await storage.approvals.agreed_before(card) == 1, "its own answer does not count"

    async def test_there_is_no_answer_to_what_nobody_asked_or_too_late(
        self, storage: Storage, clock: FrozenClock
    ) -> None:
        with pytest.raises(ApprovalNotFound):
            await storage.approvals.answer("abcd1234", APPROVE)
        await waiting(storage, asks="abcd1234")
        clock.time = START + 60
        with pytest.raises(ApprovalSettled):
            await storage.approvals.answer("abcd1234", APPROVE)

    async def test_a_decision_in_the_log_and_the_end_of_a_run_settle_questions(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, log(run_created(), asked("abcd1234"), asked("efgh5678")))
        decided = ApprovalDecided(approval_id="abcd1234", decision=Decision.DENY, by="bob", reason="no")
        await held.append(log(decided, RunCancelled(by="ada", reason="enough"), first=3))
        await held.release()
        found = {card.approval_id: card.status for card in await storage.approvals.list(pending_only=False)}
        assert found == {"abcd1234": ApprovalStatus.DENIED, "efgh5678": ApprovalStatus.CANCELLED}


class IdempotencyContract:
    async def test_the_same_request_gets_the_same_run_and_answer(self, storage: Storage) -> None:
        first = await storage.idempotency.claim("ada", "k", b"request")
        assert first.is_new
        again = await storage.idempotency.claim("ada", "k", b"request")
        assert (again.is_new, again.same_request, again.run_id, again.answer) == (False, True, first.run_id, None)
        answer = KeptAnswer(201, [("x", "y")], b"\x00body")
        await storage.idempotency.keep("ada", "k", answer)
        assert (await storage.idempotency.claim("ada", "k", b"request")).answer == answer

    async def test_a_key_belongs_to_its_caller_and_to_one_request(self, storage: Storage) -> None:
        first = await storage.idempotency.claim("ada", "k", b"request")
        assert not (await storage.idempotency.claim("ada", "k", b"other")).same_request
        other = await storage.idempotency.claim("bob", "k", b"request")
        assert other.is_new
        assert other.run_id != first.run_id

    async def test_of_many_claims_at_once_one_is_new(self, storage: Storage) -> None:
        claims = await asyncio.gather(*(storage.idempotency.claim("ada", "k", b"r") for _ in range(20)))
        assert sum(claim.is_new for claim in claims) == 1
        assert len({claim.run_id for claim in claims}) == 1

    async def test_a_key_is_forgotten_after_a_day(self, storage: Storage, clock: FrozenClock) -> None:
        first = await storage.idempotency.claim("ada", "k", b"request")
        clock.time += 24 * 3600 + 1
        later = await storage.idempotency.claim("ada", "k", b"other")
        assert later.is_new
        assert later.run_id != first.run_id


class DeliveryContract:
    @pytest.mark.proves("AU-10")
    async def test_a_delivery_is_taken_once_for_each_source_with_all_that_follows_from_it(
        self, storage: Storage
    ) -> None:
        run_id, created = RunId("6f6e1c1e-0000-4000-8000-000000000001"), log(run_created())[0]
        message = BusMessage("m1", "agent33.webhook.github", {"payload": 1})
        letter = DeadLetter(
            id="l1", kind=LetterKind.DELIVERY_IN, source="webhook github", reason="gone", payload={}, created_at=1.0
        )
        new = NewDelivery(source="github", delivery_id="1", runs={run_id: created}, letters=[letter], message=message)
        assert await storage.deliveries.find("github", "1", [run_id]) is None
        taken = await asyncio.gather(*(storage.deliveries.take(new) for _ in range(5)))
        assert sorted(taken, key=str) == [None] * 4 + [[run_id]]
        assert await storage.deliveries.find("github", "1", [RunId("other"), run_id]) == [run_id]
        assert await storage.runs.status(run_id) is RunStatus.RUNNING
        assert [each.id for each in await storage.automation.letters.list(limit=5)] == ["l1"]
        assert [each for each, _ in await storage.outbox.messages(limit=5)] == [message]
        assert await storage.deliveries.take(replace(new, source="gitlab")) == []  # its run is there


class OutboxContract:
    async def test_what_becomes_of_a_workflow_is_noted_with_its_events_until_it_is_settled(
        self, storage: Storage
    ) -> None:
        held = await storage.runs.create(RUN, log(replace(run_created(), workflow=WORKFLOW)))
        await held.append(log(_step("a", "wait"), first=1))
        assert await storage.outbox.rows(limit=9) == [OutboxRow(RUN, 0, 0, 1_000.5)]
        await held.append(log(_step("b", "invoke-agent"), completed(RUN), first=2))
        (row,) = await storage.outbox.rows(limit=9)
        assert row == OutboxRow(RUN, 0, 3, 1_000.5)
        assert await storage.outbox.rows(limit=0) == []
        await storage.outbox.settle(row)
        await storage.outbox.settle(row)
        assert await storage.outbox.rows(limit=9) == []

    async def test_what_is_appended_after_a_row_was_read_stays_in_the_outbox(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, log(replace(run_created(), workflow=WORKFLOW)))
        (row,) = await storage.outbox.rows(limit=9)
        await held.append(log(completed(RUN), first=1))
        await storage.outbox.settle(row)
        (rest,) = await storage.outbox.rows(limit=9)
        assert (rest.from_seq, rest.upto_seq) == (1, 1)

    async def test_other_systems_are_not_told_of_single_tasks(self, storage: Storage) -> None:
        await settled(storage, RUN)
        assert await storage.outbox.rows(limit=9) == []

    async def test_a_run_that_is_deleted_leaves_nothing_in_the_outbox(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, log(replace(run_created(), workflow=WORKFLOW), completed(RUN)))
        await held.release()
        await storage.retention.remove(RUN, by="ada", reason="old")
        assert await storage.outbox.rows(limit=9) == []

    async def test_messages_of_no_run_are_kept_in_order_until_they_are_removed(
        self, storage: Storage, clock: FrozenClock
    ) -> None:
        first, second = (BusMessage(f"id-{number}", "agent33.alert.x", {"ü": [number]}) for number in (1, 2))
        storage.outbox.put(first)
        storage.outbox.put(first)
        clock.time += 1
        storage.outbox.put(second)
        async with asyncio.timeout(60):
            while len(kept := await storage.outbox.messages(limit=9)) < 2:
                await asyncio.sleep(0.01)
        assert [message for message, _ in kept] == [first, second]
        assert kept[1][1] - kept[0][1] == 1
        await storage.outbox.remove(["id-1", "nobody"])
        assert [message for message, _ in await storage.outbox.messages(limit=9)] == [second]


def _step(step_id: str, action: str) -> StepStarted:
    return StepStarted(step_id=step_id, action=action, attempt=1, inputs={})


class RetentionContract:
    async def test_settled_runs_are_named_oldest_first_and_removed(self, storage: Storage) -> None:
        await settled(storage, RUN)
        await settled(storage, OTHER)
        await (await storage.runs.create(numbered(3), CREATED)).release()
        assert await storage.retention.settled_before(1_001.5) == []
        assert await storage.retention.settled_before(1_002.0) == [RUN, OTHER]
        assert await storage.retention.remove(RUN, by="ada", reason="old") > 0
        with pytest.raises(RunNotFound):
            await storage.runs.read(RUN)
        with pytest.raises(RunNotFound):
            await storage.retention.remove(RUN, by="ada", reason="old")
        assert await storage.retention.sweep() >= 0
        report = await storage.chain.verify()
        assert (report.runs, report.removed, report.damage) == (2, 1, ())

    async def test_a_run_that_is_driven_is_not_removed(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, CREATED)
        with pytest.raises(RunHeld):
            await storage.retention.remove(RUN, by="ada", reason="old")
        await held.release()

    async def test_what_works_for_a_run_that_goes_on_stays(self, storage: Storage) -> None:
        held, (child,) = await workflow_with(storage.runs, "a")
        below, _, _ = await storage.runs.take(child)
        await below.append(log(completed(child), first=1))
        await below.release()
        assert await storage.retention.settled_before(START) == []
        await held.append([log(completed(RUN), first=2)[0]])
        await held.release()
        assert sorted(await storage.retention.settled_before(START)) == sorted([RUN, child])


class AuditContract:
    async def test_the_row_of_a_run_says_what_its_first_event_says(self, storage: Storage) -> None:
        said = replace(run_created(), owner="user:ada", pool="gpu", trial_of="e-1")
        said = replace(said, visibility=Visibility.PRIVATE)
        await (await storage.runs.create(RUN, log(said))).release()
        follow_up = replace(run_created(), continues=RUN)
        await (await storage.runs.create(OTHER, log(follow_up))).release()
        assert (await storage.chain.verify()).damage == ()

    async def test_the_chain_covers_runs_and_acts(self, storage: Storage) -> None:
        empty = await storage.chain.verify()
        await settled(storage, RUN)
        act = Act(at=5.0, by="ada", credential="user", deed=Deed.BACKUP_MADE, about="é")
        await storage.acts.record(act)
        await storage.users.add(ADA, act=replace(act, deed=Deed.USER_ADDED))
        report = await storage.chain.verify()
        assert (empty.entries, report.entries, report.runs, report.damage) == (0, 4, 1, ())
        assert await storage.chain.holds(report.head)
        assert not await storage.chain.holds("00" * 32)
        assert not await storage.chain.holds("no hash")
        assert [each.deed for each in await storage.acts.recent(limit=9)] == [Deed.USER_ADDED, Deed.BACKUP_MADE]
        assert list(await storage.acts.recent(limit=1)) == [replace(act, deed=Deed.USER_ADDED)]

    async def test_a_log_says_how_long_it_is_and_changes_its_head(self, storage: Storage) -> None:
        held = await storage.runs.create(RUN, CREATED)
        before = await storage.logs.inspect(RUN)
        await held.append(NEXT)
        await held.release()
        after = await storage.logs.inspect(RUN)
        assert (before.events, after.events, after.status, after.damage) == (1, 3, "interrupted", ())
        assert before.head != after.head
        with pytest.raises(RunNotFound):
            await storage.logs.inspect(NOBODY)


class LeaseContract:
    async def test_one_server_takes_up_runs(self, storage: Storage) -> None:
        assert not storage.leases.is_served()
        assert storage.leases.claim_server()
        assert storage.leases.is_served()
        assert not storage.leases.claim_server()
        storage.leases.release_server()
        assert not storage.leases.is_served()
        assert storage.leases.driver

    async def test_a_named_lock_is_held_once(self, storage: Storage) -> None:
        locks = storage.agent_locks
        assert await locks.acquire("writer é")
        assert not await locks.acquire("writer é")
        assert await locks.acquire("reader")
        await locks.release("writer é")
        assert await locks.acquire("writer é")
        await locks.release("writer é")
        await locks.release("reader")


class FingerprintContract:
    async def test_the_first_process_decides_and_a_change_is_explicit(self, storage: Storage) -> None:
        assert await storage.fingerprints.read() == {}
        both = await asyncio.gather(
            storage.fingerprints.add({"jwt": "a", "pepper": "p"}), storage.fingerprints.add({"jwt": "b"})
        )
        assert both[0]["jwt"] == both[1]["jwt"]
        assert await storage.fingerprints.add({"jwt": "c", "audit": "x"}) == {**both[0], "pepper": "p", "audit": "x"}
        await storage.fingerprints.replace({"jwt": "d"})
        assert await storage.fingerprints.read() == {"audit": "x", "jwt": "d", "pepper": "p"}


class VectorContract:
    async def test_the_nearest_of_the_settled_runs_is_found(self, storage: Storage) -> None:
        await settled(storage, RUN, "Paint the shed")
        await settled(storage, OTHER, "Fix the pump")
        await (await storage.runs.create(numbered(3), CREATED)).release()
        missing = await storage.vectors.missing("e", dimensions=2)
        assert len(missing) == 2
        texts = await storage.vectors.texts(missing)
        assert [text.text.partition("\n")[0] for text in texts] == ["Fix the pump", "Paint the shed"]
        vectors = [array("f", each).tobytes() for each in ((1.0, 0.0), (0.0, 1.0))]
        await storage.vectors.keep("e", texts, vectors)
        assert list(await storage.vectors.missing("e", dimensions=2)) == []
        assert len(await storage.vectors.missing("e", dimensions=3)) == 2
        found = await storage.vectors.nearest("e", array("f", (0.1, 0.9)).tobytes(), words="", limit=1)
        assert [each.record.run_id for each in found] == [RUN]


class GaugeContract:
    async def test_the_store_tells_what_is_in_it(self, storage: Storage) -> None:
        storage.gauge.require_in_place()
        await waiting(storage, asks="abcd1234")
        await storage.gauge.try_to_write()
        status = await storage.gauge.status(check=True)
        assert (status.events, status.served, status.damage) == (3, False, ())
        assert {name: count for name, count in status.runs.items() if count} == {"waiting": 1}
        measured = await storage.gauge.measure()
        assert (measured.approvals_waiting, measured.oldest_approval_at) == (1, 1_001.5)
        assert measured.cluster_runs_queued == 0, "what waits for a person waits for no process"

    async def test_what_is_not_encrypted_has_no_cipher_and_mirrors_catch_up(self, storage: Storage) -> None:
        await settled(storage, RUN)
        assert storage.encryption.cipher_of(RUN) is None
        assert RUN not in storage.encryption.driven
        await storage.mirrors.catch_up()


class TablesContract(
    RunRepositoryContract,
    RunReaderContract,
    RunListingContract,
    TrialListingContract,
    RunQueueContract,
    ApprovalContract,
    IdempotencyContract,
    DeliveryContract,
    OutboxContract,
    AutomationContract,
    EvalContract,
    ChatContract,
    MemoryContract,
    FleetContract,
    RetentionContract,
    AuditContract,
    LeaseContract,
    FingerprintContract,
    VectorContract,
    UserRepositoryContract,
    EndedLoginsContract,
    ApiKeyRepositoryContract,
    LimiterContract,
):
    """What is kept in tables. Derive from this and give `storage`, an empty Storage that uses `clock`."""

    @pytest.fixture
    def clock(self) -> FrozenClock:
        return SteadyClock(START)

    @pytest.fixture
    def runs(self, storage: Storage) -> RunRepository:
        return storage.runs

    @pytest.fixture
    def users(self, storage: Storage) -> UserRepository:
        return storage.users

    @pytest.fixture
    def ended(self, storage: Storage) -> EndedLogins:
        return storage.ended_logins

    @pytest.fixture
    def keys(self, storage: Storage) -> ApiKeyRepository:
        return storage.api_keys

    @pytest.fixture
    async def limiter(self, storage: Storage, clock: FrozenClock) -> AsyncIterator[Limiter]:
        counters = storage.counters()
        yield WindowLimiter(counters, clock)
        await counters.aclose()


class StorageContract(TablesContract, GaugeContract):
    """All of it. Derive from this and give `storage`, an empty Storage that uses `clock`."""
