"""The tables of channels as SQLAlchemy describes them; see `tables`."""

from sqlalchemy import Index, Table, UniqueConstraint, text

from agent_fabric.infrastructure.persistence.migrations.columns import METADATA, counter, number, octets, real, words

CHANNEL_PEOPLE = Table(
    "channel_people",
    METADATA,
    *(words(name, key=True) for name in ("channel", "account", "sender")),
    words("user_name"),
    words("chat"),
    real("paired_at"),
    words("paired_by"),
)
Index("channel_people_users", CHANNEL_PEOPLE.c.user_name)
PAIRINGS = Table(
    "channel_pairings",
    METADATA,
    words("code", key=True),
    *(words(name) for name in ("channel", "account", "sender", "chat")),
    real("created_at"),
)
Index("channel_pairings_account", PAIRINGS.c.channel, PAIRINGS.c.account, PAIRINGS.c.created_at)
INBOX = Table(
    "channel_inbox",
    METADATA,
    counter("number"),
    *(words(name) for name in ("channel", "account", "key", "chat", "thread")),
    octets("body", null=True),
    real("received_at"),
    words("outcome", default="''"),
    UniqueConstraint("channel", "account", "key"),
)
Index(
    "channel_inbox_pending",
    *(INBOX.c[name] for name in ("channel", "account", "chat", "thread", "number")),
    postgresql_where=text("outcome = ''"),
)
Index("channel_inbox_age", INBOX.c.received_at)
CONVERSATIONS = Table(
    "channel_conversations",
    METADATA,
    *(words(name, key=True) for name in ("channel", "account", "chat", "thread")),
    number("is_direct"),
    words("sender"),
    words("session_id"),
)
Index("channel_conversations_session", CONVERSATIONS.c.session_id)
Table(
    "channel_turns",
    METADATA,
    counter("number"),
    words("run_id", unique=True),
    *(words(name) for name in ("channel", "account", "chat", "thread")),
    number("is_direct"),
    words("sender"),
    words("message_id"),
)
OUTBOX = Table(
    "channel_outbox",
    METADATA,
    counter("number"),
    words("id", unique=True),
    words("source"),
    number("seq"),
    number("part"),
    *(words(name) for name in ("channel", "account", "chat", "thread")),
    number("is_direct"),
    words("kind"),
    number("priority"),
    octets("body"),
    words("status"),
    number("attempts"),
    real("next_at"),
    real("created_at"),
    real("settled_at", null=True),
    words("message_id", default="''"),
    words("problem", default="''"),
)
Index(
    "channel_outbox_open",
    *(OUTBOX.c[name] for name in ("channel", "account", "chat", "thread", "priority", "number")),
    postgresql_where=text("status IN ('queued', 'sending')"),
)
Index("channel_outbox_source", OUTBOX.c.source, OUTBOX.c.seq, OUTBOX.c.part)
Index(
    "channel_outbox_message",
    *(OUTBOX.c[name] for name in ("channel", "account", "chat", "message_id")),
    postgresql_where=text("message_id <> ''"),
)
Index("channel_outbox_age", OUTBOX.c.created_at)
Table(
    "channel_notify",
    METADATA,
    words("user_name", key=True),
    *(words(name) for name in ("approvals", "alerts", "quiet_hours", "timezone")),
)
FILES = Table(
    "channel_files",
    METADATA,
    words("run_id", key=True),
    words("path", key=True),
    octets("body"),
    real("created_at"),
)
Index("channel_files_age", FILES.c.created_at)
