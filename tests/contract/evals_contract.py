"""What every store promises about evaluations."""

import asyncio
from dataclasses import replace

import pytest

from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.errors import EvalNotFound
from agent_fabric.domain.evals.definition import CaseFile, EvalCase, EvalDefinition
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import Arm, Evidence, Grade, Trial, TrialOutcome, trial_run_id
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus

CASES = (
    EvalCase(case_id="a", prompt="Do é.", check="true", files={"in/é.txt": CaseFile(data=b"\x00\xff")}),
    EvalCase(case_id="b", prompt="Do b.", check="false", check_files={"t.sh": CaseFile(data=b"x", executable=True)}),
)
DEFINITION = EvalDefinition(name="tasks", cases=CASES, models=("fast", "large"), packs=("engineering",), k=2)
ONE, TWO = EvalId("aaaa-1"), EvalId("aaaa-2")


def started(eval_id: EvalId = ONE, *, owner: str = "local", visibility: Visibility = Visibility.TEAM) -> Eval:
    return Eval(
        eval_id=eval_id,
        definition=DEFINITION,
        status=RunStatus.RUNNING,
        created_at=5.0,
        updated_at=5.0,
        owner=owner,
        visibility=visibility,
        scopes=("runs",),
        requested_by="ada",
    )


def outcome(case_id: str, grade: Grade, *, attempt: int = 1, retry: int = 0) -> TrialOutcome:
    trial = Trial(case_id, Arm("fast", "engineering"), attempt)
    return TrialOutcome(
        trial=trial,
        run_id=trial_run_id(ONE, trial, retry),
        grade=grade,
        evidence=Evidence.PROVEN,
        sent_back=True,
        already_right=False,
        reason="é",
        status=RunStatus.COMPLETED,
        seconds=1.5,
        steps=3,
        prompt_tokens=10,
        completion_tokens=2,
        cost=0.5,
        retry=retry,
    )


class EvalContract:
    async def test_an_evaluation_is_found_as_it_was_started(self, storage: Storage) -> None:
        await storage.evals.create(started())
        assert await storage.evals.find(ONE) == started()
        assert await storage.evals.find("AAAA") == started()
        assert await storage.evals.status(ONE) is RunStatus.RUNNING

    async def test_the_newest_of_a_name_is_found(self, storage: Storage) -> None:
        await storage.evals.create(started())
        await storage.evals.create(started(TWO))
        assert (await storage.evals.find("tasks")).eval_id == TWO
        for name in ("aaaa", "zzz", ""):
            with pytest.raises(EvalNotFound):
                await storage.evals.find(name)
        with pytest.raises(EvalNotFound):
            await storage.evals.status(EvalId("zzz"))

    async def test_what_a_viewer_may_not_see_does_not_exist(self, storage: Storage) -> None:
        await storage.evals.create(started(owner="user:ada", visibility=Visibility.PRIVATE))
        bob, ada = Viewer(("user:bob",), sees_all=False), Viewer(("user:ada",), sees_all=False)
        for name in (ONE, "tasks"):
            with pytest.raises(EvalNotFound):
                await storage.evals.find(name, viewer=bob)
        assert await storage.evals.list(limit=9, viewer=bob) == []
        assert (await storage.evals.find("tasks", viewer=ada)).eval_id == ONE
        assert [each.eval_id for each in await storage.evals.list(limit=9, viewer=ada)] == [ONE]
        assert await storage.evals.list(limit=9, owner="bob") == []
        assert len(await storage.evals.list(limit=9, owner="ada")) == 1

    async def test_an_outcome_counts_once_however_often_it_is_recorded(self, storage: Storage) -> None:
        await storage.evals.create(started())
        right = outcome("a", Grade.RIGHT)
        recorded = await asyncio.gather(*(storage.trials.record(ONE, right) for _ in range(5)))
        assert sorted(recorded) == [False] * 4 + [True]
        assert not await storage.trials.record(ONE, replace(right, grade=Grade.WRONG))
        assert await storage.trials.record(ONE, outcome("a", Grade.WRONG, attempt=2))
        assert [each for each in await storage.trials.read(ONE) if each.trial.attempt == 1] == [right]
        (line,) = await storage.evals.list(limit=1)
        assert (line.total, line.done, line.right, line.name) == (8, 2, 1, "tasks")
        with pytest.raises(EvalNotFound):
            await storage.trials.record(EvalId("zzz"), right)

    async def test_trials_that_could_not_be_tried_begin_anew_with_another_run(self, storage: Storage) -> None:
        await storage.evals.create(started())
        failed = outcome("a", Grade.FAILED)
        await storage.trials.record(ONE, failed)
        await storage.trials.record(ONE, outcome("b", Grade.WRONG))
        assert await storage.trials.retry_failed(ONE) == 1
        assert await storage.trials.retries(ONE) == {failed.trial: 1}
        assert [each.trial.case_id for each in await storage.trials.read(ONE)] == ["b"]
        assert not await storage.trials.record(ONE, failed)  # of the attempt before
        again = outcome("a", Grade.RIGHT, retry=1)
        assert again.run_id != failed.run_id
        assert await storage.trials.record(ONE, again)
        assert again in await storage.trials.read(ONE)

    async def test_a_cancelled_evaluation_stays_cancelled(self, storage: Storage) -> None:
        await storage.evals.create(started())
        assert await storage.evals.mark(ONE, RunStatus.INTERRUPTED)
        assert await storage.evals.mark(ONE, RunStatus.CANCELLED)
        assert not await storage.evals.mark(ONE, RunStatus.COMPLETED)
        assert await storage.evals.status(ONE) is RunStatus.CANCELLED

    async def test_a_lock_by_name_shows_whether_it_is_held(self, storage: Storage) -> None:
        assert not await storage.agent_locks.is_held("eval:x")
        assert await storage.agent_locks.acquire("eval:x")
        assert await storage.agent_locks.is_held("eval:x")
        await storage.agent_locks.release("eval:x")
        assert not await storage.agent_locks.is_held("eval:x")
