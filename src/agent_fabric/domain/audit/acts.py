"""What people do to a fabric folder itself, outside of every run: who may come in, secrets, backups."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Self

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.principals import Kind, Principal


def moment_words(seconds: float) -> str:
    """Return a moment as people read it in the record, which has one time zone."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


class Deed(StrEnum):
    """What was done; a stable word in the record."""

    USER_ADDED = "user_added"
    USER_CHANGED = "user_changed"
    USER_REMOVED = "user_removed"
    PASSWORD_SET = "password_set"  # noqa: S105 - a word, no password
    KEY_CREATED = "key_created"
    KEY_REVOKED = "key_revoked"
    TOKEN_ISSUED = "token_issued"  # noqa: S105
    LOCAL_TOKEN_ROTATED = "local_token_rotated"  # noqa: S105
    SECRET_SET = "secret_set"  # noqa: S105
    SECRET_REMOVED = "secret_removed"  # noqa: S105
    SECRETS_ROTATED = "secrets_rotated"
    OLD_KEYS_DROPPED = "old_keys_dropped"
    SETTING_CHANGED = "setting_changed"
    BACKUP_MADE = "backup_made"
    BACKUP_RESTORED = "backup_restored"
    STORE_COPIED = "store_copied"
    RECORD_ACCEPTED = "record_accepted"
    NODE_INVITED = "node_invited"
    NODE_JOINED = "node_joined"
    NODE_CHANGED = "node_changed"
    NODE_POLICY_SET = "node_policy_set"
    NODE_KEY_ROTATED = "node_key_rotated"
    NODE_RESOLVED = "node_resolved"
    NODE_REVOKED = "node_revoked"
    CHANNEL_PAIRED = "channel_paired"
    CHANNEL_UNPAIRED = "channel_unpaired"
    CHANNEL_PRESS_REFUSED = "channel_press_refused"
    CHANNEL_NOTIFY_SET = "channel_notify_set"
    PRIVATE_RUN_READ = "private_run_read"
    PRIVATE_RUNS_LISTED = "private_runs_listed"
    PRIVATE_SESSION_READ = "private_session_read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that a user did. It names what was touched, never a secret's value."""

    at: float
    by: str
    """Who: a user's or a key's name, or the owner of the folder at its terminal."""
    credential: str
    """How they had shown who they are: `local`, `user`, `key` or `external`."""
    deed: str
    """A `Deed`, such as `user_added`, `key_revoked`, `secret_set` or `backup_made`; a newer program may know others."""
    about: str = ""
    """Whom or what it was done to."""
    detail: str = ""
    """What else is worth knowing, in a few words."""

    @classmethod
    def of(cls, by: Principal, deed: Deed, *, at: float, about: str = "", detail: str = "") -> Self:
        """Return what a user did."""
        return cls(at=at, by=by.name, credential=Kind(by.kind).value, deed=deed.value, about=about, detail=detail)
