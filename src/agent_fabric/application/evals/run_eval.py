"""Works through the trials of an evaluation."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from agent_fabric.application.evals.check_trial import UntouchedChecks
from agent_fabric.application.evals.find_eval import lock_of
from agent_fabric.application.evals.run_trial import RunTrial
from agent_fabric.application.ports.evals import EvalRepository, TrialOutcomes
from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import EvalHeld, FabricError
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import Trial, TrialOutcome, pending
from agent_fabric.domain.ids import EvalId
from agent_fabric.domain.runs.task import RunStatus

OnOutcome = Callable[[TrialOutcome], None]
"""Told what came of a trial as soon as that is durable."""
OnBegin = Callable[[], None]
"""Told when this process works on the evaluation, and no other one does."""


@dataclass(frozen=True, slots=True)
class RunEval:
    """Use case: try everything that has no outcome yet, a bounded number at once. Called again, it goes on."""

    evals: EvalRepository
    trials: TrialOutcomes
    locks: NamedLocks
    run_trial: RunTrial
    marks_interruption: bool = True
    """Whether one that is stopped is left for a person to resume. A server leaves it for its successor."""

    async def __call__(
        self, evaluation: Eval, *, on_begin: OnBegin = lambda: None, on_outcome: OnOutcome = lambda _: None
    ) -> RunStatus:
        """Return how it stands when nothing is left to try, or someone has cancelled it.

        Raises:
            EvalHeld: another process works on it.
            StoreFull, StoreUnavailable, ServerStopping: it can be resumed later.
        """
        eval_id, lock = evaluation.eval_id, lock_of(evaluation.eval_id)
        if not await self.locks.acquire(lock):
            raise EvalHeld(
                f"Another process works on evaluation {eval_id}",
                hint=f"See how far it is: fabric eval show {eval_id}. It can be ended: fabric eval cancel {eval_id}",
            )
        try:
            return await self._settle(evaluation, on_begin, on_outcome)
        except asyncio.CancelledError:
            if self.marks_interruption:
                await asyncio.shield(self.evals.mark(eval_id, RunStatus.INTERRUPTED))
            raise
        finally:
            await self.locks.release(lock)

    async def _settle(self, evaluation: Eval, on_begin: OnBegin, on_outcome: OnOutcome) -> RunStatus:
        if not await self.evals.mark(evaluation.eval_id, RunStatus.RUNNING):
            return RunStatus.CANCELLED
        on_begin()
        await self._work_through(evaluation, on_outcome)
        completed = await self.evals.mark(evaluation.eval_id, RunStatus.COMPLETED)
        return RunStatus.COMPLETED if completed else RunStatus.CANCELLED

    async def _work_through(self, evaluation: Eval, on_outcome: OnOutcome) -> None:
        """Try what is left, unless someone cancels it."""
        eval_id = evaluation.eval_id
        definition, outcomes = evaluation.definition, await self.trials.read(eval_id)
        ahead = iter(pending(definition, outcomes))
        retries = await self.trials.retries(eval_id)
        untouched = UntouchedChecks(self.run_trial.check, outcomes, timeout_s=definition.check_timeout_s)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(definition.at_once):
                    group.create_task(self._work(evaluation, ahead, retries, untouched, on_outcome))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _work(
        self,
        evaluation: Eval,
        ahead: Iterator[Trial],
        retries: Mapping[Trial, int],
        untouched: UntouchedChecks,
        on_outcome: OnOutcome,
    ) -> None:
        for trial in ahead:
            if await self._is_cancelled(evaluation):
                return
            outcome = await self.run_trial(evaluation, trial, retry=retries.get(trial, 0), untouched=untouched)
            if await self._is_cancelled(evaluation):
                return  # which has ended the run, so that its outcome says nothing
            if await self.trials.record(evaluation.eval_id, outcome):
                on_outcome(outcome)

    async def _is_cancelled(self, evaluation: Eval) -> bool:
        return await self.evals.status(evaluation.eval_id) is RunStatus.CANCELLED


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunEvals:
    """Use case: work through evaluations after their user has left. The next server goes on with them."""

    run: RunEval
    _under_way: dict[EvalId, asyncio.Task[RunStatus]] = field(default_factory=dict)

    async def start(self, evaluation: Eval) -> None:
        """Begin with an evaluation, or go on with it; one that is under way here goes on.

        Raises:
            EvalHeld: another process works on it.
        """
        eval_id = evaluation.eval_id
        if eval_id in self._under_way:
            return
        is_held = await self.run.locks.is_held(lock_of(eval_id))
        if eval_id in self._under_way:  # meanwhile
            return
        if is_held:
            raise EvalHeld(f"Another process works on evaluation {eval_id}", hint="See how far it is, or cancel it.")
        task = asyncio.create_task(self.run(evaluation), name=f"eval {eval_id}")
        self._under_way[eval_id] = task
        task.add_done_callback(lambda done: self._after_end(eval_id, done))

    async def resume_unfinished(self) -> None:
        """Go on with what an earlier server, or a process that died, left unfinished."""
        for each in await self.run.evals.list(limit=-1):
            if each.status is RunStatus.RUNNING and not await self.run.locks.is_held(lock_of(each.eval_id)):
                try:
                    await self.start(await self.run.evals.find(each.eval_id))
                except FabricError as problem:
                    _log.warning("Evaluation %s was not resumed: %s", each.eval_id, problem.message)

    def stop(self) -> None:
        """Stop every evaluation where it stands."""
        for task in self._under_way.values():
            task.cancel()

    async def aclose(self) -> None:
        """Wait until all have stopped."""
        self.stop()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    def _after_end(self, eval_id: EvalId, task: "asyncio.Task[RunStatus]") -> None:
        self._under_way.pop(eval_id, None)
        if task.cancelled():
            return
        problem = task.exception()
        if isinstance(problem, FabricError):
            _log.warning("Evaluation %s stopped: %s", eval_id, problem.message)
        elif problem is not None:
            _log.error("Evaluation %s stopped", eval_id, exc_info=problem)
