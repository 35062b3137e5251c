"""Runs that this process creates or finds, and leaves to others."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from agent_fabric.application.ports.runs import RunQueue
from agent_fabric.application.runs.claim_runs import TRY_AGAIN_AFTER_S, ClaimRuns
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.dispatch_runs import DispatchRuns, Drive
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.errors import FabricError, RunHeld, RunKeyMissing, RunUndrivable, StoreUnavailable
from agent_fabric.domain.events import Event, RunInterrupted
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import LLMResponse
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import Budget, Profile, RunResult, RunStatus, Task
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.testing.fakes import FrozenClock
from agent_fabric.testing.workbench import Workbench, workbench

TASK = Task(prompt="do it", model_key="quality", budget=Budget.of(Profile.TASK))
RUN = RunId("run-7")
FINISH = make_finish_tool_def({"summary": {"type": "string"}})


def bench() -> Workbench:
    async def answer(_: object) -> LLMResponse:
        raise AssertionError("nobody is asked")

    return workbench(lambda _: BaseSpecialistPack(system_prompt="", tools=[], finish=FINISH), answer)


def dispatching(on: Workbench) -> DispatchRuns:
    async def follow(run_id: RunId) -> RunResult:
        await asyncio.sleep(0)
        return replace(result_of((await on.execute_task.create(TASK)).state), run_id=run_id)

    def is_ours(taken: ClaimedRun) -> bool:
        return taken.state.task is not None and taken.state.task.pool == "ours"

    return DispatchRuns(on.execute_task.drive, on.cancel_run, 2, 2, follow, is_ours)


async def test_a_run_of_another_pool_is_created_and_left_to_others() -> None:
    on = bench()
    dispatch = dispatching(on)
    drive = await dispatch(partial(on.execute_task.create, replace(TASK, pool="theirs")))
    assert isinstance(drive, Drive)
    assert drive.run_id not in on.runs.held
    assert (dispatch.running, dispatch.room) == (0, 2)
    await drive.outcome


async def test_an_interrupted_run_that_is_left_to_others_is_running_again() -> None:
    on = bench()
    taken = await on.execute_task.create(replace(TASK, pool="theirs"))
    run_id = taken.held.run_id
    await taken.held.append([Event(1, 0.0, None, "", RunInterrupted(reason="a person"))])
    await taken.held.release()
    assert await on.runs.status(run_id) is RunStatus.INTERRUPTED
    drive = await dispatching(on).resume(run_id, partial(on.resume_run.take, run_id, by="person"))
    assert isinstance(drive, Drive)
    assert await on.runs.status(run_id) is RunStatus.RUNNING  # so that somebody takes it up
    assert run_id not in on.runs.held
    await drive.outcome


class _Queue(RunQueue):
    """One run that has no driver."""

    async def list_unfinished(self, *, limit: int | None = None) -> list[RunId]:
        return [RUN]

    async def due(self) -> list[RunId]:
        return []


class _Refusing:
    """Stands where a run would be taken."""

    def __init__(self, problem: FabricError) -> None:
        self.problem = problem
        self.asked = 0

    async def take(self, run_id: RunId, *, by: str) -> RunResult:
        self.asked += 1
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (RunUndrivable("no", lacks="the pack 'x'"), "the pack 'x'"),
        (RunKeyMissing("no"), "the key of an encrypted run"),
        (FabricError("its folder is a link"), "what it takes: its folder is a link"),
        (RunHeld("somebody was faster"), None),
        (StoreUnavailable("gone"), None),
    ],
    ids=["pack", "key", "anything", "held", "store"],
)
async def test_others_are_told_what_this_process_lacks(problem: FabricError, reason: str | None) -> None:
    on, clock, told = bench(), FrozenClock(), list[tuple[RunId, str]]()
    refusing = _Refusing(problem)

    async def refuse(run_id: RunId, why: str) -> None:
        told.append((run_id, why))

    resume: ResumeRun = refusing  # type: ignore[assignment]  # only what is used of it
    claim = ClaimRuns(_Queue(), dispatching(on), resume, clock, 1.0, refuse=refuse)
    assert await claim.look() == 0
    assert told == ([] if reason is None else [(RUN, reason)])
    await claim.look()
    assert refusing.asked == (2 if reason is None else 1)
    clock.time += TRY_AGAIN_AFTER_S + 1
    await claim.look()
    assert told == [] if reason is None else len(told) == 2
