"""Ends an evaluation from anywhere."""

from contextlib import suppress

from agent_fabric.application.ports.evals import EvalRepository, TrialOutcomes
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunHeld, RunNotFound
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import pending, trial_run_id
from agent_fabric.domain.runs.task import RunStatus


@dataclass(frozen=True, slots=True)
class CancelEval:
    """Use case: let nothing more be tried, and end the runs that are under way. What has an outcome keeps it."""

    evals: EvalRepository
    trials: TrialOutcomes
    cancel_run: CancelRun

    async def __call__(self, evaluation: Eval, *, by: str, reason: str = "") -> RunStatus:
        """Return how it stands then. One that has completed stays as it is."""
        eval_id = evaluation.eval_id
        if await self.evals.status(eval_id) is RunStatus.COMPLETED:
            return RunStatus.COMPLETED
        await self.evals.mark(eval_id, RunStatus.CANCELLED)
        retries = await self.trials.retries(eval_id)
        for trial in pending(evaluation.definition, await self.trials.read(eval_id)):
            run_id = trial_run_id(eval_id, trial, retries.get(trial, 0))
            # Most have not begun; and the request stays in the inbox of one that does not end in time.
            with suppress(RunNotFound, RunHeld):
                await self.cancel_run(run_id, by=by, reason=reason or "the evaluation was cancelled")
        return RunStatus.CANCELLED
