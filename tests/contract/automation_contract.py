"""What every store of automation promises."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.application.ports.automation import (
    DeadLetter,
    LetterKind,
    NewFiring,
    NewNoticed,
    Noticed,
    ScheduleQuery,
    Turn,
)
from agent_fabric.application.ports.runs import NewRun
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.approvals.answers import Decision, Question
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.automation.firing import Firing, FiringStatus, Reason, run_of_firing
from agent_fabric.domain.automation.outgoing import OutgoingMessage, Subscription
from agent_fabric.domain.automation.schedule import Rule, Schedule, TargetKind
from agent_fabric.domain.automation.sensing import Look, run_of_happening
from agent_fabric.domain.errors import NameTaken, ScheduleNotFound
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.runs.task import Parent, RunStatus
from contract.run_repository_contract import completed, log, run_created

AT = 1_000_000.0


def a_schedule(name: str = "nightly", *, next_at: float | None = AT, number: int = 1) -> Schedule:
    return Schedule(
        id=f"id-{number:05}",
        name=name,
        target_kind=TargetKind.WORKFLOW,
        target="triage",
        inputs={"count": 3},
        rule=Rule(every_s=60.0, anchor=AT, timezone="Europe/Berlin"),
        created_at=AT - 100,
        next_at=next_at,
        user_scopes=("runs",),
    )


def a_firing(due_at: float = AT, *, name: str = "nightly", status: FiringStatus = FiringStatus.FIRED) -> Firing:
    return Firing(
        trigger=name,
        due_at=due_at,
        until_at=due_at,
        status=status,
        fired_at=due_at + 1,
        run_id=run_of_firing(name, due_at) if status is FiringStatus.FIRED else None,
        server="one",
        revision=1,
    )


def a_turn(schedule: Schedule, *firings: Firing) -> Turn:
    created = log(run_created())[0]
    new = [NewFiring(firing=each, created=created if each.run_id else None) for each in firings]
    following = (schedule.next_at or 0.0) + 60
    return Turn(schedule=schedule, next_at=following, look_at=following, firings=new)


async def _prepared() -> bool:
    return True


async def _nothing() -> None:
    return None


def a_question(approval_id: str) -> ApprovalRequested:
    return ApprovalRequested(
        approval_id=approval_id,
        call_id=CallId(f"call-{approval_id}"),
        tool="shell",
        args={"command": "deploy"},
        question=Question.DID_IT_HAPPEN,
        reason="It was cut off.",
        rule="in_doubt",
        subject="deploy",
        alike="",
        agent="workflow:triage",
        target="/nowhere",
        sandbox="none",
        untrusted=(),
        policy_version="1",
        binding="b",
        args_hash="h",
        expires_at=AT * 10_000,
    )


class AutomationContract:
    @pytest.mark.proves("AU-1")
    async def test_a_schedule_comes_back_as_it_was_kept_by_name_and_id(self, storage: Storage) -> None:
        schedules, kept = storage.automation.schedules, a_schedule()
        await schedules.add(kept, by="ada")
        assert await schedules.find("nightly") == await schedules.find(kept.id) == kept
        assert await schedules.list() == [kept]
        with pytest.raises(NameTaken):
            await schedules.add(replace(kept, id="other"), by="ada")
        with pytest.raises(ScheduleNotFound):
            await schedules.find("none")

    async def test_a_change_counts_once_and_the_rule_before_is_remembered(self, storage: Storage) -> None:
        schedules, old = storage.automation.schedules, a_schedule()
        await schedules.add(old, by="ada")
        new = replace(old, rule=replace(old.rule, every_s=5.0), revision=2, next_at=AT + 65)
        assert await schedules.change(old, new, by="bob", now=AT + 30)
        assert not await schedules.change(old, new, by="bob", now=AT + 31)
        versions = await storage.automation.history.versions("nightly")
        assert [(each.revision, each.rule.every_s, each.changed_by) for each in versions] == [
            (1, 60.0, "ada"),
            (2, 5.0, "bob"),
        ]
        (pending,) = await storage.automation.history.firings("nightly", limit=5)
        assert (pending.due_at, pending.reason) == (AT, Reason.CHANGED)

    @pytest.mark.proves("AU-5")
    async def test_what_is_due_is_fired_with_its_run_by_the_first_who_commits(self, storage: Storage) -> None:
        automation, schedule = storage.automation, a_schedule()
        await automation.schedules.add(schedule, by="ada")
        assert await automation.queue.due(AT - 1, limit=10) == ((), AT, False)
        (due,) = (await automation.queue.due(AT, limit=10)).schedules
        assert (due.schedule, due.open_runs, due.queued) == (schedule, [], 0)
        fired = a_firing()
        done = await asyncio.gather(*(automation.queue.commit([a_turn(schedule, fired)]) for _ in range(4)))
        assert sorted(each[0] for each in done) == [False, False, False, True]
        assert await automation.history.firings("nightly", limit=5) == [fired]
        assert fired.run_id is not None
        assert await storage.runs.status(fired.run_id) is RunStatus.RUNNING
        assert list(await storage.queue.list_unfinished()) == [fired.run_id]
        assert await automation.queue.due(AT + 1, limit=10) == ((), AT + 60, False)

    async def test_a_schedule_that_is_made_again_fires_no_instant_twice(self, storage: Storage) -> None:
        automation, schedule = storage.automation, a_schedule()
        await automation.schedules.add(schedule, by="ada")
        await automation.queue.commit([a_turn(schedule, a_firing())])
        await automation.schedules.remove(schedule, by="ada", now=AT + 2)
        again = replace(schedule, id="again")
        await automation.schedules.add(again, by="ada")
        assert await automation.queue.commit([a_turn(again, a_firing())]) == [True]
        assert len(await automation.history.firings("nightly", limit=5)) == 1

    async def test_runs_stay_open_until_a_turn_has_noted_how_they_ended(self, storage: Storage) -> None:
        automation, schedule = storage.automation, a_schedule()
        await automation.schedules.add(schedule, by="ada")
        fired = a_firing()
        await automation.queue.commit([a_turn(schedule, fired)])
        assert fired.run_id is not None
        held, _, _ = await storage.runs.take(fired.run_id)
        (due,) = (await automation.queue.due(AT + 60, limit=10)).schedules
        assert [run.is_over for run in due.open_runs] == [False]
        await held.append(log(completed(fired.run_id, "done"), first=1))
        await held.release()
        (due,) = (await automation.queue.due(AT + 60, limit=10)).schedules
        assert [(run.run_id, run.status) for run in due.open_runs] == [(fired.run_id, RunStatus.COMPLETED)]
        turn = replace(a_turn(due.schedule), over=due.open_runs, failures=2)
        assert await automation.queue.commit([turn]) == [True]
        (due,) = (await automation.queue.due(AT + 120, limit=10)).schedules
        assert (due.open_runs, due.failures) == ([], 2)

    async def test_a_queued_firing_is_started_once(self, storage: Storage) -> None:
        automation, schedule = storage.automation, a_schedule()
        await automation.schedules.add(schedule, by="ada")
        queued = a_firing(status=FiringStatus.QUEUED)
        later = a_firing(AT + 60, status=FiringStatus.QUEUED)
        await automation.queue.commit([a_turn(schedule, queued, later)])
        ((first, runs),) = await automation.queue.waiting(limit=10)
        assert (first, runs) == (queued, [])
        fired, created = a_firing(), log(run_created())[0]
        done = await asyncio.gather(*(automation.queue.start(fired, created) for _ in range(3)))
        assert sorted(done) == [False, False, True]
        ((first, runs),) = await automation.queue.waiting(limit=10)
        assert (first, [run.run_id for run in runs]) == (later, [fired.run_id])

    async def test_an_instant_that_was_skipped_can_be_fired_after_all(self, storage: Storage) -> None:
        automation, schedule = storage.automation, a_schedule()
        await automation.schedules.add(schedule, by="ada")
        span = replace(a_firing(status=FiringStatus.SKIPPED), until_at=AT + 120, count=3, reason=Reason.MISFIRE)
        await automation.queue.commit([a_turn(schedule, span)])
        assert await automation.queue.record(NewFiring(firing=a_firing(), created=log(run_created())[0]))
        assert not await automation.queue.record(NewFiring(firing=a_firing(), created=log(run_created())[0]))
        rows = await automation.history.firings("nightly", limit=5)
        assert [(each.status, each.count) for each in rows] == [("skipped", 2), ("fired", 1)]
        assert await automation.history.fired_within("nightly", AT, AT + 500) == [AT]
        (near,) = await automation.history.around("nightly", AT + 100, within_s=5)
        assert near.reason is Reason.MISFIRE

    async def test_schedules_are_listed_in_pages_with_what_became_of_each(self, storage: Storage) -> None:
        automation = storage.automation
        for number, name in enumerate(("night", "noon", "a_b", "axb")):
            owner = "user:ada" if number % 2 else "local"
            await automation.schedules.add(
                replace(a_schedule(name, number=number), owner=owner, target=f"W {name}"), by="ada"
            )

        async def listed(**wanted: Any) -> list[str]:
            return [each.name for each in await automation.schedules.list(ScheduleQuery(**wanted))]

        every = await listed()
        assert sorted(every) == ["a_b", "axb", "night", "noon"]
        assert await listed(limit=2) + await listed(limit=9, after=every[1]) == every
        assert await listed(owners=["local"]) == [each for each in every if each in {"night", "a_b"}]
        assert await listed(owners=[]) == []
        assert await listed(words="w N") == [each for each in every if each.startswith("n")]
        assert await listed(words="a_") == ["a_b"]
        assert await listed(words="!") == []
        night = await automation.schedules.find("night")
        await automation.queue.commit([a_turn(night, a_firing(name="night"), a_firing(AT + 60, name="night"))])
        newest = await automation.overview.newest(["night", "noon", "none"])
        assert {name: each.due_at for name, each in newest.items()} == {"night": AT + 60}

    @pytest.mark.proves("WB-12")
    async def test_what_runs_of_a_schedule_ask_a_person_is_known_also_if_a_run_below_asks(
        self, storage: Storage
    ) -> None:
        automation, schedule, run_id = storage.automation, a_schedule(), run_of_firing("nightly", AT)
        await automation.schedules.add(schedule, by="ada")
        await automation.schedules.add(a_schedule("quiet", number=2), by="ada")
        await automation.queue.commit([a_turn(schedule, a_firing())])
        assert await automation.overview.open_questions() == await automation.overview.open_questions(["nightly"]) == {}
        below = replace(run_created(), parent=Parent(run_id=run_id, lane=LaneId("ask")))
        taken, below_id = await storage.runs.take(run_id), RunId("run-below")
        (question,) = log(a_question("second"), first=1)
        child = NewRun(run_id=below_id, created=log(below)[0], prepare=_prepared, discard=_nothing)
        await taken.held.append([question._replace(ts=question.ts + 1)], children=[child])
        asking = await storage.runs.take(below_id)
        await asking.held.append(log(a_question("first"), first=1))
        await asking.held.release()
        open_now = await automation.overview.open_questions()
        assert open_now == await automation.overview.open_questions(["quiet", "nightly"])
        assert await automation.overview.open_questions(["quiet"]) == {}
        asked = open_now["nightly"]
        assert (asked.run_id, asked.approval_id, asked.decided_at) == (run_id, "first", None)
        assert asked.is_open_at(asked.since)
        assert not asked.is_open_at(asked.expires_at)
        assert [each.approval_id for each in await automation.overview.questions(run_id)] == ["first", "second"]
        decided = ApprovalDecided(approval_id="second", decision=Decision.DONE, by="ada", via="test", reason="")
        (event,) = log(decided, first=2)
        await taken.held.append([event])
        (_, answered) = await automation.overview.questions(run_id)
        assert (answered.decided_by, answered.decided_at) == ("ada", event.ts)
        await taken.held.release()

    @pytest.mark.proves("AU-12")
    async def test_what_is_made_up_for_waits_beside_what_is_due_and_can_be_taken_back(self, storage: Storage) -> None:
        automation, schedule = storage.automation, a_schedule()
        await automation.schedules.add(schedule, by="ada")
        await automation.queue.commit([a_turn(schedule, a_firing(), a_firing(AT + 60, status=FiringStatus.QUEUED))])
        past = [
            replace(a_firing(AT - 60 * nth, status=FiringStatus.QUEUED), reason=Reason.BACKFILL) for nth in range(4)
        ]
        assert await automation.backlog.add(past) == 3  # one was fired
        assert await automation.backlog.add(past) == 0
        assert await automation.overview.waiting(["nightly", "other"]) == {"nightly": 4}
        (due,) = (await automation.queue.due(AT + 100, limit=5)).schedules
        assert due.queued == 1
        ((first, _),) = await automation.queue.waiting(limit=5)
        assert first.due_at == AT - 180
        assert await automation.backlog.withdraw("nightly", by="ada", now=AT + 200) == 3
        assert await automation.overview.waiting(["nightly"]) == {"nightly": 1}
        (row,) = await automation.history.around("nightly", AT - 60, within_s=1)
        assert (row.status, row.reason, row.about) == ("skipped", Reason.WITHDRAWN, "ada")

    async def test_a_schedule_that_is_paused_with_a_turn_fires_no_more(self, storage: Storage) -> None:
        automation, schedule = storage.automation, a_schedule()
        await automation.schedules.add(schedule, by="ada")
        skipped = replace(a_firing(status=FiringStatus.SKIPPED), reason=Reason.PAUSED)
        turn = replace(a_turn(schedule, skipped), next_at=None, look_at=None, paused_by="5 failures")
        assert await automation.queue.commit([turn]) == [True]
        paused = await automation.schedules.find("nightly")
        assert (paused.is_active, paused.paused_by, paused.next_at, paused.revision) == (False, "5 failures", None, 2)
        assert (await automation.history.versions("nightly"))[-1].is_active is False

    async def test_who_was_alive_is_known(self, storage: Storage) -> None:
        beats = storage.automation.heartbeats
        for now in (AT, AT + 5, AT + 3):
            await beats.beat("a", "one", AT, now)
        await beats.beat("b", "two", AT + 100, AT + 100)
        found = {(life.server, life.since, life.until) for life in await storage.automation.history.lives(AT + 50)}
        assert found == {("one", AT, AT + 5), ("two", AT + 100, AT + 100)}

    async def test_a_cursor_moves_with_what_was_noticed_and_each_happening_counts_once(self, storage: Storage) -> None:
        sensors = storage.automation.sensors
        state = await sensors.state("files")
        assert (state.cursor, state.looked_at) == (None, None)
        run_id = run_of_happening("files", "a")
        noticed = Noticed(sensor="files", key="a", at=AT, run_id=run_id, depth=3)
        new = NewNoticed(noticed=noticed, created=log(run_created())[0])
        look = Look({"at": 1}, (), "one file changed")
        assert await sensors.commit(state, look, [new], now=AT) == [run_id]
        assert await sensors.commit(state, look, [new], now=AT) is None
        state = await sensors.state("files")
        assert (state.cursor, state.revision, state.reason) == ({"at": 1}, 1, "one file changed")
        assert await sensors.commit(state, Look({"at": 1}, (), "again"), [new], now=AT + 1) == []
        assert await sensors.list_noticed("files", limit=5) == [noticed]
        assert (await sensors.depth_of(run_id), await sensors.depth_of(RunId("other"))) == (3, 0)
        assert [(each.name, each.cursor, each.revision) for each in await sensors.states()] == [("files", None, 2)]
        assert await storage.runs.status(run_id) is RunStatus.RUNNING

    @pytest.mark.proves("AU-11")
    async def test_a_letter_is_settled_with_the_run_that_comes_of_it_and_its_happening_has_that_run(
        self, storage: Storage
    ) -> None:
        sensors, letters = storage.automation.sensors, storage.automation.letters
        keys = {key: run_of_happening("files", key) for key in ("a", "b")}
        kept = [
            DeadLetter(
                id=run_id,
                kind=LetterKind.TRIGGER,
                source="files",
                reason="gone",
                payload={"sensor": "files", "key": key, "run_id": run_id},
                created_at=AT,  # both were noticed in one look
            )
            for key, run_id in keys.items()
        ]
        new = [
            NewNoticed(noticed=Noticed(sensor="files", key=key, at=AT, reason="gone", depth=4), letter=letter)
            for key, letter in zip(keys, kept, strict=True)
        ]
        await sensors.commit(await sensors.state("files"), Look(1, (), "two"), new, now=AT)
        created = log(run_created())[0]
        for letter, run_id in zip(kept, keys.values(), strict=True):
            done = [await letters.start(letter, run_id, created, by="ada", now=AT + 5) for _ in range(2)]
            assert done == [True, False]
            assert await storage.runs.status(run_id) is RunStatus.RUNNING
            found = await letters.find(letter.id)
            assert (found.status, found.settled_by, found.outcome) == ("replayed", "ada", run_id)
            assert await sensors.depth_of(run_id) == 4
        assert {each.run_id for each in await sensors.list_noticed("files", limit=5)} == set(keys.values())

    async def test_messages_of_one_run_keep_their_order_and_are_claimed_once(self, storage: Storage) -> None:
        receivers, queue = storage.automation.subscriptions, storage.automation.outgoing
        ops = Subscription(name="ops", subjects=("agent33.>",), url="https://example.com/", created_at=AT)
        await receivers.save(ops, new=True)
        with pytest.raises(NameTaken):
            await receivers.save(ops, new=True)
        await receivers.save(replace(ops, failing_since=AT))
        assert await receivers.list() == [replace(ops, failing_since=AT)]
        first, second, other = (
            OutgoingMessage(
                id=f"{key}>ops",
                subscription="ops",
                message_id=key,
                subject="agent33.workflow.completed",
                payload={"key": key},
                next_at=AT,
                created_at=AT,
            )
            for key in ("a:1", "a:2", "b:1")
        )
        await queue.put([first, second, other])
        await queue.put([first])
        assert await queue.claim("ops", AT, until=AT + 60) == first
        assert await queue.claim("ops", AT, until=AT + 60) == other
        assert await queue.claim("ops", AT, until=AT + 60) is None
        await queue.settle(first, next_at=AT + 5)
        assert await queue.claim("ops", AT + 1, until=AT + 60) is None
        again = await queue.claim("ops", AT + 5, until=AT + 60)
        assert again == replace(first, attempts=1, next_at=AT + 5)
        await queue.settle(first, next_at=None)
        assert await queue.claim("ops", AT + 6, until=AT + 60) == second
        assert await receivers.remove("ops")
        assert await queue.claim("ops", AT + 900, until=AT + 960) is None
        assert not await receivers.remove("ops")
