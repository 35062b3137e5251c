"""What every RunRepository promises, whatever stands behind it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.application.ports.runs import CANCEL, CHILD, HeldRun, InboxRow, NewRun, RunRepository
from agent_fabric.domain.errors import DriverConflict, RunHeld, RunNotFound
from agent_fabric.domain.events import Body, Event, RunCompleted, RunCreated, RunInterrupted, RunResumed
from agent_fabric.domain.ids import LaneId, RunId, SpecialistId
from agent_fabric.domain.runs.task import Budget, FrozenWorkflow, Parent, Profile, RunStatus
from agent_fabric.domain.workflows.child_run_ids import child_run_id
from agent_fabric.domain.workflows.events import StepFinished, StepRetried, StepStarted, StepStatus

RUN = RunId("00000000-0000-4000-8000-000000000001")
OTHER = RunId("00000000-0000-4000-8000-000000000002")
NOBODY = RunId("00000000-0000-4000-8000-00000000dead")


def run_created(prompt: str = "do it", workspace: str = "/nowhere") -> RunCreated:
    return RunCreated(
        prompt=prompt,
        specialist_id=None,
        model_key="quality",
        network_allowed=True,
        profile=Profile.TASK,
        budget=Budget(max_steps=5),
        workspace=workspace,
        sandbox="none",
        policy_version="1",
        fabric_version="0",
    )


def completed(run_id: RunId, summary: str = "done") -> RunCompleted:
    return RunCompleted(
        run_id=run_id,
        specialist_ids=(SpecialistId("engineering"),),
        task_force_mode="sequential",
        payload={"summary": summary},
    )


def log(*bodies: Body, first: int = 0) -> list[Event]:
    return [Event(first + index, 1_000.5 + first + index, None, "", body) for index, body in enumerate(bodies)]


CREATED = log(run_created())
NEXT = log(RunResumed(by="person", driver="a test"), RunInterrupted(reason="to see"), first=1)


WORKFLOW = FrozenWorkflow(definition={"name": "w", "version": "1.0.0", "steps": []}, inputs={})


async def _nothing_to_make() -> bool:
    return False


async def _nothing_to_remove() -> None:
    """There is no folder."""


def child_of(run_id: RunId, lane: str) -> NewRun:
    """Return the run that does the first attempt at a step."""
    created = replace(run_created(), parent=Parent(run_id=run_id, lane=LaneId(lane), level=1))
    return NewRun(
        run_id=child_run_id(run_id, LaneId(lane), 1),
        created=log(created)[0],
        prepare=_nothing_to_make,
        discard=_nothing_to_remove,
    )


async def workflow_with(runs: RunRepository, *lanes: str) -> tuple[HeldRun, list[RunId]]:
    """Return a workflow whose steps each have a run that works for them."""
    held = await runs.create(RUN, log(replace(run_created(), workflow=WORKFLOW)))
    children = [child_of(RUN, lane) for lane in lanes]
    started = [
        StepStarted(step_id=lane, action="workflow", attempt=1, inputs={}, child_run_id=child.run_id)
        for lane, child in zip(lanes, children, strict=True)
    ]
    await held.append(in_lanes(1, *zip(lanes, started, strict=True)), children=children)
    return held, [child.run_id for child in children]


def in_lanes(first: int, *bodies: tuple[str, Body]) -> list[Event]:
    return [Event(first + index, 2_000.0, LaneId(lane), "", body) for index, (lane, body) in enumerate(bodies)]


async def unread(runs: RunRepository, run_id: RunId) -> list[str]:
    """Return the kinds of the rows in the inbox of a run that nobody drives."""
    held, _, _ = await runs.take(run_id)
    try:
        return [row.kind for row in await held.unread()]
    finally:
        await held.release()


async def soon(held: HeldRun) -> Sequence[InboxRow]:
    async with asyncio.timeout(60):
        return await held.receive()


async def nothing_arrives(held: HeldRun, within_s: float = 0.6) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(within_s):
            await held.receive()


class RunRepositoryContract:
    """Derive from this and give `runs`, an empty RunRepository."""

    async def test_what_was_appended_is_read_in_order(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        assert held.run_id == RUN
        await held.append(NEXT)
        await held.release()
        assert list(await runs.read(RUN)) == [*CREATED, *NEXT]

    async def test_long_texts_are_kept_whole_alone_and_in_groups(self, runs: RunRepository) -> None:
        long = "a line of a text that is too long for a row\n" * 1_000
        first, said = log(run_created(long)), log(RunResumed(by="person", driver=long), first=1)
        held, other = await runs.create(RUN, first), await runs.create(OTHER, CREATED)
        await held.append(said)
        more = log(RunResumed(by="person", driver=f"{long}more"), first=2)
        await asyncio.gather(held.append(more), other.append(said))  # one of the texts is there already
        for each in (held, other):
            await each.release()
        assert list(await runs.read(RUN)) == [*first, *said, *more]
        assert list(await runs.read(OTHER)) == [*CREATED, *said]

    async def test_several_first_events_are_kept(self, runs: RunRepository) -> None:
        await (await runs.create(RUN, [*CREATED, *NEXT])).release()
        assert list(await runs.read(RUN)) == [*CREATED, *NEXT]

    @pytest.mark.parametrize(("after", "left"), [(-1, 3), (0, 2), (1, 1), (2, 0), (99, 0)])
    async def test_reading_goes_on_behind_a_sequence_number(self, runs: RunRepository, after: int, left: int) -> None:
        await (await runs.create(RUN, [*CREATED, *NEXT])).release()
        assert list(await runs.read(RUN, after=after)) == [*CREATED, *NEXT][3 - left :]

    async def test_a_log_can_be_read_while_it_is_held(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        assert list(await runs.read(RUN)) == CREATED
        await held.release()

    async def test_what_was_read_does_not_change_when_the_log_grows(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        before = await runs.read(RUN)
        await held.append(NEXT)
        assert list(before) == CREATED
        await held.release()

    async def test_runs_do_not_see_each_other(self, runs: RunRepository) -> None:
        one, two = await runs.create(RUN, CREATED), await runs.create(OTHER, log(run_created("something else")))
        await one.append(NEXT)
        await runs.post(OTHER, "cancel", {"by": "a test"})
        assert list(await runs.read(OTHER)) == log(run_created("something else"))
        assert [row.kind for row in await soon(two)] == ["cancel"]
        await nothing_arrives(one)
        await one.release()
        await two.release()

    async def test_an_unknown_run_is_not_found_by_anybody(self, runs: RunRepository) -> None:
        with pytest.raises(RunNotFound):
            await runs.take(NOBODY)
        with pytest.raises(RunNotFound):
            await runs.read(NOBODY)
        with pytest.raises(RunNotFound):
            await runs.post(NOBODY, "cancel", {})

    async def test_a_run_that_is_held_cannot_be_taken(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        with pytest.raises(RunHeld, match=RUN):
            await runs.take(RUN)
        await held.append(NEXT)  # the holder was not disturbed
        await held.release()
        again, _, _ = await runs.take(RUN)
        with pytest.raises(RunHeld):
            await runs.take(RUN)
        await again.release()

    async def test_a_released_run_can_be_taken_and_goes_on(self, runs: RunRepository) -> None:
        await (await runs.create(RUN, CREATED)).release()
        held, _, _ = await runs.take(RUN)
        await held.append(NEXT)
        await held.release()
        held, _, _ = await runs.take(RUN)
        end = log(completed(RUN), first=3)
        await held.append(end)
        await held.release()
        assert list(await runs.read(RUN)) == [*CREATED, *NEXT, *end]

    @pytest.mark.parametrize("first", [0, 2, 7])
    async def test_an_event_out_of_its_place_is_a_conflict_and_leaves_no_trace(
        self, runs: RunRepository, first: int
    ) -> None:
        held = await runs.create(RUN, CREATED)
        with pytest.raises(DriverConflict):
            await held.append(log(RunInterrupted(reason="wrong place"), first=first))
        assert list(await runs.read(RUN)) == CREATED
        await held.append(NEXT)
        await held.release()
        assert list(await runs.read(RUN)) == [*CREATED, *NEXT]

    async def test_a_conflict_consumes_nothing(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        await runs.post(RUN, "cancel", {"by": "a test"})
        rows = await soon(held)
        with pytest.raises(DriverConflict):
            await held.append(log(RunInterrupted(reason="wrong place"), first=5), consumed=rows)
        await held.release()
        again, _, _ = await runs.take(RUN)
        assert await soon(again) == rows
        await again.release()

    async def test_mail_arrives_in_order_and_as_it_was_sent(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        payloads: list[dict[str, Any]] = [{"by": "ä\u2028\x1b", "n": 1}, {"deep": [{"a": None}]}, {}]
        for number, payload in enumerate(payloads):
            await runs.post(RUN, f"kind-{number}", payload)
        rows = await soon(held)
        assert [row.kind for row in rows] == ["kind-0", "kind-1", "kind-2"]
        assert [dict(row.payload) for row in rows] == payloads
        assert len({row.row_id for row in rows}) == 3
        await held.release()

    async def test_mail_that_comes_while_the_driver_waits_wakes_it_within_half_a_second(
        self, runs: RunRepository
    ) -> None:
        held = await runs.create(RUN, CREATED)
        took: list[float] = []
        while not took or (min(took) >= 0.6 and len(took) < 10):  # now and then a busy machine is slow
            waiting = held.receive()
            await asyncio.sleep(0.05)
            started = asyncio.get_running_loop().time()
            await runs.post(RUN, "cancel", {"by": "a test"})
            async with asyncio.timeout(60):
                assert [row.kind for row in await waiting] == ["cancel"]
            took.append(asyncio.get_running_loop().time() - started)
        assert min(took) < 0.6, took
        await held.release()

    async def test_mail_is_seen_once_and_only_what_is_new_follows(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        await runs.post(RUN, "first", {})
        assert [row.kind for row in await soon(held)] == ["first"]
        await nothing_arrives(held)  # although nobody has consumed it yet
        await runs.post(RUN, "second", {})
        assert [row.kind for row in await soon(held)] == ["second"]
        await held.release()

    async def test_mail_stays_for_the_next_driver_until_it_is_consumed(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        await runs.post(RUN, "first", {})
        await runs.post(RUN, "second", {})
        await soon(held)
        await held.release()
        held, _, _ = await runs.take(RUN)
        rows = await soon(held)
        assert [row.kind for row in rows] == ["first", "second"]
        await held.append(NEXT, consumed=rows[:1])
        await held.release()
        held, _, _ = await runs.take(RUN)
        assert [row.kind for row in await soon(held)] == ["second"]
        await held.append(log(RunInterrupted(reason=""), first=3), consumed=rows[1:])
        await held.release()
        held, _, _ = await runs.take(RUN)
        await nothing_arrives(held)
        await held.release()

    async def test_mail_waits_for_a_driver(self, runs: RunRepository) -> None:
        await (await runs.create(RUN, CREATED)).release()
        await runs.post(RUN, "cancel", {"by": "a test"})
        held, _, _ = await runs.take(RUN)
        assert [row.kind for row in await soon(held)] == ["cancel"]
        await held.release()

    async def test_giving_up_to_wait_for_mail_loses_none(self, runs: RunRepository) -> None:
        held = await runs.create(RUN, CREATED)
        for _ in range(3):
            waiting = held.receive()
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await runs.post(RUN, "late", {})
        assert [row.kind for row in await soon(held)] == ["late"]
        await held.release()

    async def test_many_runs_append_at_the_same_time(self, runs: RunRepository) -> None:
        async def live(number: int) -> None:
            run_id = RunId(f"run-{number}")
            held = await runs.create(run_id, log(run_created(f"task {number}")))
            for seq in range(1, 10):
                await held.append(log(RunInterrupted(reason=f"{number}.{seq}"), first=seq))
            await held.release()

        async with asyncio.TaskGroup() as group:
            for number in range(40):
                group.create_task(live(number))
        for number in range(40):
            events = await runs.read(RunId(f"run-{number}"))
            assert [event.seq for event in events] == list(range(10))
            assert events[9].body == RunInterrupted(reason=f"{number}.9")

    async def test_an_id_that_is_taken_does_not_touch_the_run_that_has_it(self, runs: RunRepository) -> None:
        await (await runs.create(RUN, [*CREATED, *NEXT])).release()
        with pytest.raises(Exception):  # noqa: B017, PT011 - the port does not say which
            await runs.create(RUN, log(run_created("a thief")))
        assert list(await runs.read(RUN)) == [*CREATED, *NEXT]

    async def test_taking_a_run_returns_its_log_and_its_status_is_told_without_it(self, runs: RunRepository) -> None:
        await (await runs.create(RUN, CREATED)).release()
        assert await runs.status(RUN) is RunStatus.RUNNING
        held, events, _ = await runs.take(RUN)
        assert list(events) == CREATED
        await held.append(NEXT)
        assert list(events) == CREATED
        await held.release()
        assert await runs.status(RUN) is RunStatus.INTERRUPTED
        with pytest.raises(RunNotFound):
            await runs.status(NOBODY)

    async def test_a_run_that_settles_leaves_nothing_in_its_inbox_and_gets_nothing_more(
        self, runs: RunRepository
    ) -> None:
        held = await runs.create(RUN, CREATED)
        await runs.post(RUN, "early", {})
        await held.append(log(completed(RUN), first=1))
        await runs.post(RUN, "late", {})
        assert await held.unread() == []
        await held.release()

    async def test_a_child_comes_into_being_with_its_step_and_tells_its_end(self, runs: RunRepository) -> None:
        held, (child,) = await workflow_with(runs, "a")
        below, _, _ = await runs.take(child)
        await below.append(log(completed(child), first=1))
        await below.release()
        (row,) = await soon(held)
        assert (row.kind, row.payload["run_id"]) == (CHILD, child)
        await held.append((), consumed=[row])
        await held.release()

    async def test_a_workflow_that_ends_asks_who_works_for_it_to_end_in_the_same_breath(
        self, runs: RunRepository
    ) -> None:
        held, (ended, going_on) = await workflow_with(runs, "a", "b")
        below, _, _ = await runs.take(ended)
        await below.append(log(completed(ended), first=1))
        await below.release()
        await held.append(log(completed(RUN), first=3))
        await held.release()
        assert await unread(runs, going_on) == [CANCEL]
        assert await unread(runs, ended) == []

    async def test_a_step_that_is_given_up_asks_its_child_to_end_and_no_other_one(self, runs: RunRepository) -> None:
        held, children = await workflow_with(runs, "a", "b", "c", "d")
        failed = StepFinished(step_id="a", attempt=1, status=StepStatus.FAILED, error="too long")
        retried = StepRetried(step_id="b", attempt=1, error="too long", error_type="TimeoutError", delay_s=0.0)
        other = StepFinished(step_id="d", attempt=2, status=StepStatus.FAILED)
        await held.append(in_lanes(5, ("a", failed), ("b", retried), ("d", other)))
        await held.release()
        assert [await unread(runs, child) for child in children] == [[CANCEL], [CANCEL], [], []]
