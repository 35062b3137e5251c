"""Secrets as they are shown: names and dates, never values."""

from typing import Any

from agent_fabric.bootstrap.secrets import Rotation
from agent_fabric.infrastructure.secrets.encrypted_file import StoredSecret


def secret_object(stored: StoredSecret) -> dict[str, Any]:
    """Return what may be shown of a secret."""
    return {
        "name": stored.name,
        "source": "file",
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
    }


def rotation_object(done: Rotation) -> dict[str, Any]:
    """Return what a rotation did."""
    return done._asdict()
