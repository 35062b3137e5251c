"""Joins what commands need that look after sessions; nothing that drives a run is imported."""

from agent_fabric.application.chat.export_session import ExportSession
from agent_fabric.application.chat.find_session import FindSession
from agent_fabric.application.chat.manage_sessions import ManageSessions
from agent_fabric.bootstrap.records import Records
from agent_fabric.infrastructure.clock import RandomIds, SystemClock


def find_session(records: Records) -> FindSession:
    """Return the use case that finds sessions for callers."""
    return FindSession(records.storage.sessions, records.storage.acts, SystemClock())


def manage_sessions(records: Records, *, encrypts: bool) -> ManageSessions:
    """Return the use case that changes, forks and deletes sessions."""
    storage = records.storage
    return ManageSessions(storage.sessions, storage.messages, storage.retention, SystemClock(), RandomIds(), encrypts)


def export_session(records: Records) -> ExportSession:
    """Return the use case that hands out whole sessions."""
    return ExportSession(records.storage.messages, records.storage.message_queue, records.runs)
