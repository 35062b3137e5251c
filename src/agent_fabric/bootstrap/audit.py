"""Joins what is needed to check runs again, to take them away and to record who did what.

No model, no network, no configuration.
"""

from functools import partial
from pathlib import Path

from agent_fabric.application.audit.collect_garbage import CollectGarbage
from agent_fabric.application.ports.audit import RetentionStore
from agent_fabric.application.runs.verify_run import VerifyRun
from agent_fabric.application.secrets.change_secrets import ChangeSecrets
from agent_fabric.bootstrap.records import Records
from agent_fabric.bootstrap.secrets import Secrets
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.runs.log.links import require_workspace_unlinked
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox
from agent_fabric.infrastructure.threads import on_own_thread


def verify_run(records: Records) -> VerifyRun:
    """Return the use case that checks runs again."""
    return VerifyRun(
        runs=records.runs,
        logs=records.storage.logs,
        snapshots_for=records.snapshots_for,
        # Files are only read, and nothing runs: no box is needed.
        sandbox_for=partial(_files_of, records),
    )


def _files_of(records: Records, run_id: RunId, workspace: str) -> UnconfinedSandbox:
    folder = _today(records, run_id, Path(workspace))
    records.layout.own_run_dir(run_id)
    require_workspace_unlinked(str(folder))
    return UnconfinedSandbox(folder, run_id)


def _today(records: Records, run_id: RunId, recorded: Path) -> Path:
    """Return where a run's files are today: in its fabric folder, which may have been moved, or in a project folder."""
    inside = len(recorded.parts) > 2  # a run that follows up another one works in that one's workspace
    own = Path(records.layout.workspace(RunId(recorded.parts[-2]) if inside else run_id))
    return own if recorded.parts[-3:] == own.parts[-3:] else recorded


def change_secrets(secrets: Secrets, records: Records) -> ChangeSecrets:
    """Return the use cases that keep and forget secrets."""
    return ChangeSecrets(secrets.file, records.storage.acts, SystemClock())


def collect_garbage(records: Records) -> CollectGarbage:
    """Return the use case that deletes old runs."""
    layout = records.layout

    async def prune_changes() -> int:
        if not layout.changes.exists():
            return 0
        from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder  # noqa: PLC0415 - a rare collection

        return await on_own_thread(ChangeRecorder(layout).forget_unused)

    return CollectGarbage(retention_of(records), SystemClock(), prune_changes)


def retention_of(records: Records) -> RetentionStore:
    """Return what deletes runs, with what was saved of them elsewhere."""
    if records.archive is None:
        return records.storage.retention
    from agent_fabric.infrastructure.runs.workspaces.saved_folders import SavedRetention  # noqa: PLC0415 - few have one

    return SavedRetention(records.storage.retention, records.archive.objects)
