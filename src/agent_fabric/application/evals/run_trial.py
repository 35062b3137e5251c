"""One trial from its beginning to its outcome."""

from collections.abc import Callable
from dataclasses import replace

from agent_fabric.application.evals.check_trial import CheckTrial, UntouchedChecks
from agent_fabric.application.evals.drive_trial import DriveTrial
from agent_fabric.application.evals.start_eval import MakeTask
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, ServerStopping, StoreUnavailable
from agent_fabric.domain.evals.definition import EvalCase, EvalDefinition
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import (
    Grade,
    Trial,
    TrialOutcome,
    never_run,
    outcome_of,
    trial_run_id,
    why_not_tried,
)
from agent_fabric.domain.evidence.proofs import RESULT_UNPROVEN
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Priority, Task, lower_of


@dataclass(frozen=True, slots=True)
class RunTrial:
    """Use case: let a run do a case, then check what it left behind."""

    drive: DriveTrial
    check: CheckTrial
    make_task: MakeTask
    limit: Callable[[Eval, Budget], Budget] = lambda _, budget: budget
    """Lowers a budget to what the owner of an evaluation may use."""

    async def __call__(
        self, evaluation: Eval, trial: Trial, *, retry: int = 0, untouched: UntouchedChecks | None = None
    ) -> TrialOutcome:
        """Return the outcome. Begun again after a crash, it goes on with the same run.

        With `untouched`, the outcome says whether the check was right before the trial.

        Raises:
            StoreFull, StoreUnavailable, ServerStopping: nothing can be tried here at this time.
        """
        definition = evaluation.definition
        case, run_id = definition.case(trial.case_id), trial_run_id(evaluation.eval_id, trial, retry)
        task = self._task(evaluation, trial, case)
        already_right = await untouched(run_id, case) if untouched is not None else None
        outcome = await self._try_once(definition, trial, run_id, task, retry)
        return replace(outcome, already_right=already_right)

    async def _try_once(
        self, definition: EvalDefinition, trial: Trial, run_id: RunId, task: Task, retry: int
    ) -> TrialOutcome:
        case = definition.case(trial.case_id)
        try:
            result = await self.drive(run_id, task, case.files)
        except (StoreUnavailable, ServerStopping):
            raise
        except FabricError as problem:
            return never_run(trial, run_id, f"{problem.code}: {problem.message}", retry=retry)
        if why := why_not_tried(result):
            return outcome_of(trial, result, Grade.FAILED, reason=why, retry=retry)
        if result.error is not None and result.error.code == RESULT_UNPROVEN:
            return outcome_of(trial, result, Grade.WRONG, reason=result.error.message, retry=retry)
        checked = await self.check(run_id, result.workspace, case, timeout_s=definition.check_timeout_s)
        # What a check prints may be what is in the files: where the run is encrypted, it is not kept in the clear.
        reason = "" if task.encrypted or self.drive.execute_task.encrypts(task) else checked.reason
        return outcome_of(trial, result, checked.grade, reason=reason, retry=retry)

    def _task(self, evaluation: Eval, trial: Trial, case: EvalCase) -> Task:
        """Return the task of a trial: its owner's, without a person to ask."""
        definition = evaluation.definition
        task = self.make_task(case.prompt, trial.arm)
        steps, most = definition.max_steps, definition.max_cost
        budget = replace(task.budget, max_cost=lower_of(task.budget.max_cost, most))
        budget = budget if steps is None else replace(budget, max_steps=steps)
        return replace(
            task,
            budget=self.limit(evaluation, budget),
            require_proof=task.require_proof or definition.require_proof,
            network_allowed=definition.network,
            outside_allowed=False,
            priority=Priority.BATCH,
            trial_of=evaluation.eval_id,
            owner=evaluation.owner,
            visibility=evaluation.visibility,
            requested_by=evaluation.requested_by,
            user_scopes=evaluation.scopes,
        )
