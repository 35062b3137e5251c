"""Joins the use cases that look after runs and sessions: end, answer, compare, undo, verify, delete, evaluate them.

Each command needs one of them, so that what it needs is imported when it is asked for.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.bootstrap.records import Records, open_secrets
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.infrastructure.clock import RandomIds, SystemClock

if TYPE_CHECKING:
    from agent_fabric.application.approvals.decide_approval import DecideApproval
    from agent_fabric.application.audit.collect_garbage import CollectGarbage
    from agent_fabric.application.chat.export_session import ExportSession
    from agent_fabric.application.chat.find_session import FindSession
    from agent_fabric.application.chat.manage_sessions import ManageSessions
    from agent_fabric.application.evals.cancel_eval import CancelEval
    from agent_fabric.application.evals.drive_trial import SeeThrough
    from agent_fabric.application.evals.find_eval import FindEval
    from agent_fabric.application.evals.make_case import MakeCase
    from agent_fabric.application.evals.run_eval import RunEval, RunEvals
    from agent_fabric.application.evals.start_eval import StartEval
    from agent_fabric.application.policy.check_command import CheckCommand
    from agent_fabric.application.ports.audit import RetentionStore
    from agent_fabric.application.runs.cancel_run import CancelRun
    from agent_fabric.application.runs.compare_runs import CompareRuns
    from agent_fabric.application.runs.diff_run import DiffRun
    from agent_fabric.application.runs.dispatch_runs import DispatchRuns
    from agent_fabric.application.runs.fetch_files import FetchFiles
    from agent_fabric.application.runs.limits import Limits
    from agent_fabric.application.runs.undo_run import UndoRun
    from agent_fabric.application.runs.verify_run import VerifyRun
    from agent_fabric.application.secrets.change_secrets import ChangeSecrets
    from agent_fabric.bootstrap.local import LocalFabric
    from agent_fabric.config.loader import Loaded
    from agent_fabric.config.schema.fabric import FabricConfig
    from agent_fabric.domain.evals.summary import Eval
    from agent_fabric.domain.evals.trials import Arm
    from agent_fabric.domain.ids import RunId
    from agent_fabric.domain.policy.engine import RulePolicy
    from agent_fabric.domain.runs.task import Budget, Task
    from agent_fabric.infrastructure.runs.log.layout import Layout
    from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedFolders
    from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
    from agent_fabric.infrastructure.secrets.folder_secrets import Secrets


def policy_of(records: Records, config: "FabricConfig") -> "RulePolicy":
    """Return the policy that the configuration describes.

    Raises:
        ConfigProblem: a file or a rule cannot be used.
    """
    from agent_fabric.infrastructure.policy.load import policy_from  # noqa: PLC0415 - see above

    return policy_from(config.policy, config.shell, config.web, folder=records.layout.root)


def may_leave_box(config: "FabricConfig") -> bool:
    """Return whether a call that a person agrees to runs outside the box; where the box has a network, none does."""
    reaches = config.shell.network == "allowlist" and (config.egress.allow_domains or config.egress.allow_hosts)
    return config.policy.outside != "never" and not reaches


def check_command(in_force: "RulePolicy", config: "FabricConfig") -> "CheckCommand":
    """Return the use case that tells what a policy says about a command line."""
    from agent_fabric.application.policy.check_command import CheckCommand  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.altered_programs import altered_programs  # noqa: PLC0415 - see above

    return CheckCommand(in_force, may_leave_box(config), altered_programs)


async def policy_with(in_force: "RulePolicy", text: str, file: str) -> "RulePolicy":
    """Return a policy with the rules of a policy file added; a long text holds up no one else.

    Raises:
        ConfigError: the text holds no rules that can be used.
    """
    from agent_fabric.infrastructure.policy.load import with_text  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.threads import on_own_thread  # noqa: PLC0415 - see above

    try:
        return await on_own_thread(lambda: with_text(in_force, text, Path(file)))
    except ConfigProblem as problem:
        raise ConfigError(problem.message, hint=problem.hint) from None


def cancel_run(records: Records) -> "CancelRun":
    """Return the use case that ends runs; it needs no model and no configuration."""
    from agent_fabric.application.runs.cancel_run import CancelRun  # noqa: PLC0415 - see above

    return CancelRun(records.runs, SystemClock())


def decide_approval(records: Records, loaded: "Callable[[], Loaded]") -> "DecideApproval":
    """Return the use case that answers runs; the configuration is read only if that needs it."""
    from agent_fabric.application.approvals.decide_approval import DecideApproval  # noqa: PLC0415 - see above

    return DecideApproval(
        records.approvals,
        records.runs,
        lambda: policy_of(records, loaded().config),
        lambda: loaded().config.approvals.four_eyes,
    )


def diff_run(records: Records) -> "DiffRun":
    """Return the use case that tells what a run changed."""
    from agent_fabric.application.runs.diff_run import DiffRun  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.runs.changes.folder_undo import FolderUndo  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder  # noqa: PLC0415 - see above

    recorder = ChangeRecorder(records.layout)
    return DiffRun(records.runs, recorder, FolderUndo(records.layout, recorder))


def compare_runs(records: Records) -> "CompareRuns":
    """Return the use case that lays two runs beside each other."""
    from agent_fabric.application.runs.compare_runs import CompareRuns  # noqa: PLC0415 - see above

    return CompareRuns(records.storage.reader, diff_run(records))


def undo_run(records: Records) -> "UndoRun":
    """Return the use case that takes back what a run changed."""
    from agent_fabric.application.runs.undo_run import UndoRun  # noqa: PLC0415 - see above

    return UndoRun(diff_run(records), SystemClock())


def fetch_files(records: Records) -> "FetchFiles":
    """Return the use case that hands out the files of runs."""
    from agent_fabric.application.runs.fetch_files import FetchFiles  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.runs.log.run_files import RunFiles  # noqa: PLC0415 - see above

    return FetchFiles(records.storage.reader, RunFiles(records.layout), records.storage.runs, records.archive)


def verify_run(records: Records) -> "VerifyRun":
    """Return the use case that checks runs again."""
    from agent_fabric.application.runs.verify_run import VerifyRun  # noqa: PLC0415 - see above

    return VerifyRun(
        runs=records.runs,
        logs=records.storage.logs,
        snapshots_for=records.snapshots_for,
        # Files are only read, and nothing runs: no box is needed.
        sandbox_for=partial(_files_of, records),
    )


def _files_of(records: Records, run_id: "RunId", workspace: str) -> "UnconfinedSandbox":
    from agent_fabric.infrastructure.runs.log.layout import require_workspace_unlinked  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox  # noqa: PLC0415 - see above

    folder = records.layout.workspace_today(run_id, Path(workspace))
    records.layout.own_run_dir(run_id)
    require_workspace_unlinked(str(folder))
    return UnconfinedSandbox(folder, run_id)


def find_session(records: Records) -> "FindSession":
    """Return the use case that finds sessions for callers."""
    from agent_fabric.application.chat.find_session import FindSession  # noqa: PLC0415 - see above

    return FindSession(records.storage.sessions, records.storage.acts, SystemClock())


def manage_sessions(records: Records, *, encrypts: bool) -> "ManageSessions":
    """Return the use case that changes, forks and deletes sessions."""
    from agent_fabric.application.chat.manage_sessions import ManageSessions  # noqa: PLC0415 - see above

    storage = records.storage
    return ManageSessions(storage.sessions, storage.messages, storage.retention, SystemClock(), RandomIds(), encrypts)


def export_session(records: Records) -> "ExportSession":
    """Return the use case that hands out whole sessions."""
    from agent_fabric.application.chat.export_session import ExportSession  # noqa: PLC0415 - see above

    return ExportSession(records.storage.messages, records.storage.message_queue, records.runs)


def change_secrets(secrets: "Secrets", records: Records) -> "ChangeSecrets":
    """Return the use cases that keep and forget secrets."""
    from agent_fabric.application.secrets.change_secrets import ChangeSecrets  # noqa: PLC0415 - see above

    return ChangeSecrets(secrets.file, records.storage.acts, SystemClock())


def collect_garbage(records: Records) -> "CollectGarbage":
    """Return the use case that deletes old runs."""
    from agent_fabric.application.audit.collect_garbage import CollectGarbage  # noqa: PLC0415 - see above

    layout = records.layout

    async def prune_changes() -> int:
        if not layout.changes.exists():
            return 0
        from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder  # noqa: PLC0415 - see above
        from agent_fabric.infrastructure.threads import on_own_thread  # noqa: PLC0415 - see above

        return await on_own_thread(ChangeRecorder(layout).forget_unused)

    return CollectGarbage(retention_of(records), SystemClock(), prune_changes)


def retention_of(records: Records) -> "RetentionStore":
    """Return what deletes runs, with what was saved of them elsewhere."""
    if records.archive is None:
        return records.storage.retention
    from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedRetention  # noqa: PLC0415 - see above

    return SavedRetention(records.storage.retention, records.archive.objects)


def archive_here(config: "FabricConfig", layout: "Layout") -> "SavedFolders | None":
    """Return what has saved files of runs elsewhere, if it is configured."""
    if not config.workspaces.backend:
        return None
    from agent_fabric.infrastructure.runs.workspaces.open_archive import open_archive  # noqa: PLC0415 - see above

    return open_archive(config.workspaces, layout, open_secrets(config.secrets, layout.root, os.environ).chain.resolve)


def find_eval(records: Records) -> "FindEval":
    """Return the use case that finds evaluations."""
    from agent_fabric.application.evals.find_eval import FindEval  # noqa: PLC0415 - see above

    storage = records.storage
    return FindEval(storage.evals, storage.trials, storage.agent_locks)


def cancel_eval(records: Records) -> "CancelEval":
    """Return the use case that ends evaluations."""
    from agent_fabric.application.evals.cancel_eval import CancelEval  # noqa: PLC0415 - see above

    return CancelEval(records.storage.evals, records.storage.trials, cancel_run(records))


def make_case(records: Records) -> "MakeCase":
    """Return the use case that makes cases of runs."""
    from agent_fabric.application.evals.make_case import MakeCase  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder  # noqa: PLC0415 - see above

    return MakeCase(records.runs, ChangeRecorder(records.layout))


@dataclass(frozen=True, slots=True)
class EvalParts:
    """What a process needs to run evaluations."""

    start: "StartEval"
    run: "RunEval"
    find: "FindEval"


@dataclass(frozen=True, slots=True)
class ServedEvals:
    """The evaluations of a server."""

    evals: EvalParts
    cancel: "CancelEval"
    jobs: "RunEvals"


def open_evals(
    fabric: "LocalFabric",
    config: "FabricConfig",
    *,
    see_through: "SeeThrough | None" = None,
    limit: "Callable[[Eval, Budget], Budget]" = lambda _, budget: budget,
    served: bool = False,
) -> EvalParts:
    """Join what runs evaluations; runs are driven by this very process unless `see_through` says otherwise."""
    from agent_fabric.application.evals.check_trial import CheckTrial  # noqa: PLC0415 - see above
    from agent_fabric.application.evals.drive_trial import DriveTrial, drive_here  # noqa: PLC0415 - see above
    from agent_fabric.application.evals.run_eval import RunEval  # noqa: PLC0415 - see above
    from agent_fabric.application.evals.run_trial import RunTrial  # noqa: PLC0415 - see above
    from agent_fabric.application.evals.start_eval import StartEval  # noqa: PLC0415 - see above
    from agent_fabric.application.runs.new_task import on_terms, task_from  # noqa: PLC0415 - see above
    from agent_fabric.infrastructure.evals.case_folders import RunCaseFolders  # noqa: PLC0415 - see above

    records, clock = fabric.records, SystemClock()
    storage, execute_task = records.storage, fabric.execute_task
    folders = RunCaseFolders(records.layout)

    def make_task(prompt: str, arm: "Arm") -> "Task":
        return task_from(config, prompt, pack=arm.pack or None, model_key=arm.model)

    driving = see_through or drive_here(execute_task.drive)
    drive = DriveTrial(execute_task, fabric.resume_run, folders, clock, driving)
    trial = RunTrial(drive, CheckTrial(folders, fabric.sandboxes), make_task, limit)
    start = StartEval(
        evals=storage.evals,
        recruit=execute_task.recruit,
        make_task=make_task,
        require_terms=lambda task, most: on_terms(config, task, max_cost=most),
        default_model=config.default_model_key,
        visibility=execute_task.visibility,
        clock=clock,
        ids=RandomIds(),
    )
    run = RunEval(storage.evals, storage.trials, storage.agent_locks, trial, marks_interruption=not served)
    return EvalParts(start, run, find_eval(records))


def serve_evals(
    fabric: "LocalFabric", config: "FabricConfig", dispatch: "DispatchRuns", limits: "Limits"
) -> ServedEvals:
    """Join the parts for a server, which drives trials among its other runs."""
    from agent_fabric.application.evals.drive_trial import drive_in_turn  # noqa: PLC0415 - see above
    from agent_fabric.application.evals.run_eval import RunEvals  # noqa: PLC0415 - see above
    from agent_fabric.domain.identity.ownership import LOCAL_OWNER  # noqa: PLC0415 - see above

    def limit(evaluation: "Eval", budget: "Budget") -> "Budget":
        is_limited = limits.settings.local or evaluation.owner != LOCAL_OWNER
        return limits.caps.lower(budget) if is_limited else budget

    evals = open_evals(fabric, config, see_through=drive_in_turn(dispatch, fabric.resume_run), limit=limit, served=True)
    return ServedEvals(evals, cancel_eval(fabric.records), RunEvals(evals.run))


def diff_of_git(folder: Path, base: str) -> str:
    """Return what has changed in the git repository of a folder since `base`; empty: since the last commit."""
    from agent_fabric.infrastructure.sandbox.git_diff import read_git_diff  # noqa: PLC0415 - only reviews need it

    return read_git_diff(folder, base)
