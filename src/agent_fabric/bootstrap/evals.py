"""Joins what is needed to run evaluations: everything that drives runs."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_fabric.application.evals.cancel_eval import CancelEval
from agent_fabric.application.evals.check_trial import CheckTrial
from agent_fabric.application.evals.drive_trial import DriveTrial, SeeThrough, drive_here, drive_in_turn
from agent_fabric.application.evals.find_eval import FindEval
from agent_fabric.application.evals.run_eval import RunEval
from agent_fabric.application.evals.run_evals import RunEvals
from agent_fabric.application.evals.run_trial import RunTrial
from agent_fabric.application.evals.start_eval import StartEval
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.evals_reading import cancel_eval, find_eval
from agent_fabric.bootstrap.limits import Limits
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.evals.summary import Eval
from agent_fabric.domain.evals.trials import Arm
from agent_fabric.domain.identity.ownership import LOCAL_OWNER, Visibility
from agent_fabric.domain.runs.task import Budget, Task
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.evals.case_folders import RunCaseFolders


@dataclass(frozen=True, slots=True)
class EvalParts:
    """What a process needs to run evaluations."""

    start: StartEval
    run: RunEval
    find: FindEval


def open_evals(
    fabric: LocalFabric,
    config: FabricConfig,
    *,
    see_through: SeeThrough | None = None,
    limit: Callable[[Eval, Budget], Budget] = lambda _, budget: budget,
    served: bool = False,
) -> EvalParts:
    """Join the parts; runs are driven by this very process unless `see_through` says otherwise."""
    records, clock = fabric.records, SystemClock()
    storage, execute_task = records.storage, fabric.execute_task
    folders = RunCaseFolders(records.layout)

    def make_task(prompt: str, arm: Arm) -> Task:
        return task_from(config, prompt, pack=arm.pack or None, model_key=arm.model)

    driving = see_through or drive_here(execute_task.drive)
    drive = DriveTrial(execute_task, fabric.resume_run, folders, clock, driving)
    trial = RunTrial(drive, CheckTrial(folders, fabric.sandboxes), make_task, limit)
    start = StartEval(
        evals=storage.evals,
        recruit=execute_task.recruit,
        make_task=make_task,
        default_model=config.default_model_key,
        visibility=Visibility(config.identity.visibility),
        clock=clock,
        ids=RandomIds(),
    )
    run = RunEval(storage.evals, storage.trials, storage.agent_locks, trial, marks_interruption=not served)
    return EvalParts(start, run, find_eval(records))


def serve_evals(fabric: LocalFabric, config: FabricConfig, dispatch: DispatchRuns, limits: Limits) -> "ServedEvals":
    """Join the parts for a server, which drives trials among its other runs."""

    def limit(evaluation: Eval, budget: Budget) -> Budget:
        is_limited = limits.settings.local or evaluation.owner != LOCAL_OWNER
        return limits.caps.lowered(budget) if is_limited else budget

    evals = open_evals(fabric, config, see_through=drive_in_turn(dispatch, fabric.resume_run), limit=limit, served=True)
    return ServedEvals(evals, cancel_eval(fabric.records), RunEvals(evals.run))


@dataclass(frozen=True, slots=True)
class ServedEvals:
    """The evaluations of a server."""

    evals: EvalParts
    cancel: CancelEval
    jobs: RunEvals
