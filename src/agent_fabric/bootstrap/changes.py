"""Joins what is needed to see and take back what runs changed: no model, no network, no configuration."""

from agent_fabric.application.runs.diff_run import DiffRun
from agent_fabric.application.runs.undo_run import UndoRun
from agent_fabric.bootstrap.records import Records
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.runs.changes.folder_undo import FolderUndo
from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder


def diff_run(records: Records) -> DiffRun:
    """Return the use case that tells what a run changed."""
    recorder = ChangeRecorder(records.layout)
    return DiffRun(records.runs, recorder, FolderUndo(records.layout, recorder))


def undo_run(records: Records) -> UndoRun:
    """Return the use case that takes back what a run changed."""
    return UndoRun(diff_run(records), SystemClock())
