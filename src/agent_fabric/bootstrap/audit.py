"""Joins what is needed to check runs again: no model, no network, no configuration."""

from pathlib import Path

from agent_fabric.application.runs.verify_run import VerifyRun
from agent_fabric.bootstrap.local import Records
from agent_fabric.infrastructure.persistence.log_inspector import SqliteLogInspector
from agent_fabric.infrastructure.sandbox.unconfined import UnconfinedSandbox


def verify_run(records: Records) -> VerifyRun:
    """Return the use case that checks runs again."""
    return VerifyRun(
        runs=records.runs,
        logs=SqliteLogInspector(records.store),
        snapshots_for=records.snapshots_for,
        sandbox_for=lambda run_id: UnconfinedSandbox(Path(records.layout.workspace(run_id)), run_id),
    )
