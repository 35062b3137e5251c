"""Joins what is needed to check runs again, to take them away and to record who did what.

No model, no network, no configuration.
"""

import os
from pathlib import Path

from agent_fabric.application.audit.collect_garbage import CollectGarbage
from agent_fabric.application.runs.verify_run import VerifyRun
from agent_fabric.application.secrets.change_secrets import ChangeSecrets
from agent_fabric.bootstrap.local import Records
from agent_fabric.bootstrap.secrets import Secrets
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.act_log import SqliteActLog
from agent_fabric.infrastructure.persistence.audit_chain import SqliteAuditChain
from agent_fabric.infrastructure.persistence.audit_key_file import audit_key
from agent_fabric.infrastructure.persistence.log_inspector import SqliteLogInspector
from agent_fabric.infrastructure.persistence.retention import SqliteRetentionStore
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox


def verify_run(records: Records) -> VerifyRun:
    """Return the use case that checks runs again."""
    return VerifyRun(
        runs=records.runs,
        logs=SqliteLogInspector(records.store),
        snapshots_for=records.snapshots_for,
        # Files are only read, and nothing runs: no box is needed.
        sandbox_for=lambda run_id, workspace: UnconfinedSandbox(_today(records, run_id, Path(workspace)), run_id),
    )


def _today(records: Records, run_id: RunId, recorded: Path) -> Path:
    """Return where a run's files are today: in its fabric folder, which may have been moved, or in a project folder."""
    own = Path(records.layout.workspace(run_id))
    return own if recorded.parts[-3:] == own.parts[-3:] else recorded


def act_log(records: Records) -> SqliteActLog:
    """Return what people did to the folder itself."""
    return SqliteActLog(records.store, audit_key(os.environ))


def change_secrets(secrets: Secrets, records: Records) -> ChangeSecrets:
    """Return the use cases that keep and forget secrets."""
    return ChangeSecrets(secrets.file, act_log(records), SystemClock())


def audit_chain(records: Records) -> SqliteAuditChain:
    """Return the chain over all runs."""
    return SqliteAuditChain(records.store, audit_key(os.environ))


def collect_garbage(records: Records) -> CollectGarbage:
    """Return the use case that takes old runs away."""
    clock = SystemClock()
    return CollectGarbage(
        SqliteRetentionStore(records.store, records.layout.run_dir, clock, audit_key(os.environ)), clock
    )
