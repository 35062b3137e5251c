"""Joins what tells users of things."""

from agent_fabric.application.channels.notify_user import NotifyUser
from agent_fabric.application.ports.storage import Storage


def notifying(storage: Storage) -> NotifyUser:
    """Return what tells users: it writes into the store, and a server sends it."""
    return NotifyUser(storage.channels, storage.users, storage.automation.outgoing, storage.clock)
