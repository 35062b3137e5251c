"""The tables as SQLAlchemy describes them, for migrations only: the product never imports this.

What makes the tables is the SQL in `steps`. This description lets alembic say what a database differs in,
and a test compares both, column by column.
"""

from collections.abc import Collection

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    Column,
    Computed,
    ForeignKeyConstraint,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from agent_fabric.infrastructure.persistence.migrations import (  # noqa: F401 - they join METADATA
    automation_tables,
    channel_tables,
    fleet_tables,
    memory_tables,
)
from agent_fabric.infrastructure.persistence.migrations.columns import METADATA, counter, number, octets, real, words
from agent_fabric.infrastructure.persistence.migrations.memory_tables import PASSAGE_EMBEDDINGS

RUNS = Table(
    "runs",
    METADATA,
    counter("number"),
    words("run_id", unique=True),
    words("status"),
    real("created_at"),
    real("wake_at", null=True),
    number("parent", null=True),
    words("owner", default="''"),
    words("visibility", default="'team'"),
    number("continues", null=True),
    words("trial_of", default="''"),
    words("driver", default="''"),
    number("epoch", default="0"),
    words("home", default="''"),
    words("session_id", default="''"),
    words("pool", default="'default'"),
)
Index("runs_to_wake", RUNS.c.wake_at, postgresql_where=text("status = 'waiting'"))
Index("runs_below", RUNS.c.parent, postgresql_where=text("parent IS NOT NULL"))
Index("runs_continuing", RUNS.c.continues, postgresql_where=text("continues IS NOT NULL"))
Index("runs_of_trials", RUNS.c.trial_of, postgresql_where=text("trial_of <> ''"))
Index("runs_of_session", RUNS.c.session_id, RUNS.c.number, postgresql_where=text("session_id <> ''"))
Index("runs_in_work", RUNS.c.number, postgresql_where=text("status = 'running'"))

EVENTS = Table(
    "events",
    METADATA,
    counter("position"),
    number("run"),
    number("seq"),
    real("ts"),
    words("kind"),
    number("version"),
    words("lane", null=True),
    words("step"),
    octets("payload"),
    octets("hash"),
)
EVENTS.append_constraint(UniqueConstraint("run", "seq"))
Table("blobs", METADATA, octets("hash", key=True), octets("data"))
INBOX = Table("inbox", METADATA, counter("id"), number("run"), words("kind"), octets("payload"), real("created_at"))
Index("inbox_of_run", INBOX.c.run)
Table("drivers", METADATA, number("run", key=True), words("holder"), real("since"))
Table("run_keys", METADATA, number("run", key=True), octets("key"))

APPROVALS = Table(
    "pending_approvals",
    METADATA,
    words("id", key=True),
    number("run"),
    words("execution_id"),
    words("agent_id", null=True),
    words("tool_name"),
    octets("arguments"),
    words("status"),
    words("session_id", null=True),
    real("created_at"),
    real("expires_at"),
    octets("card"),
    words("decided_by", default="''"),
    real("decided_at", null=True),
    words("decided_because", default="''"),
)
Index("approvals_pending", APPROVALS.c.expires_at, postgresql_where=text("status = 'pending'"))
Index("approvals_of_run", APPROVALS.c.run)


def _sealed() -> "tuple[Column[float], Column[str], Column[int], Column[str], Column[int], Column[bytes]]":
    return real("at"), words("kind"), number("run"), words("run_id"), number("events"), octets("head")


CHAIN = Table("audit_chain", METADATA, counter("position"), *_sealed(), words("note"), words("key"), octets("hash"))
Index("audit_chain_hash", CHAIN.c.hash)
Table(
    "audit_strands",
    METADATA,
    words("strand", key=True),
    number("number", key=True),
    *_sealed(),
    words("note"),
    words("key"),
    octets("hash"),
)
Table("open_strands", METADATA, words("strand", key=True), number("tied"))

Table(
    "users",
    METADATA,
    words("name", key=True),
    words("password", default="''"),
    words("role"),
    words("scopes", default="'[]'"),
    number("disabled", default="0"),
    real("tokens_after", default="0"),
    real("created_at"),
)
Table(
    "api_keys",
    METADATA,
    words("id", key=True),
    words("name"),
    octets("hash", unique=True),
    words("scopes"),
    words("created_by"),
    real("created_at"),
    real("expires_at", null=True),
    real("revoked_at", null=True),
    real("last_used_at", null=True),
)
Table("ended_logins", METADATA, words("id", key=True), real("until"))
IDEMPOTENCY = Table(
    "idempotency",
    METADATA,
    words("principal", key=True),
    words("key", key=True),
    octets("request"),
    words("run_id"),
    number("status", null=True),
    octets("headers", null=True),
    octets("body", null=True),
    real("created_at"),
)
Index("idempotency_age", IDEMPOTENCY.c.created_at)
Table("rate_limits", METADATA, words("key", key=True), number("hits"), real("expires_at"))
Table("deliveries", METADATA, words("source", key=True), words("delivery", key=True), real("received_at"))

Table(
    "evals",
    METADATA,
    counter("number"),
    words("eval_id", unique=True),
    words("name"),
    words("status"),
    words("owner"),
    words("visibility"),
    real("created_at"),
    real("updated_at"),
    number("total"),
    octets("asked"),
    octets("definition"),
)
Table(
    "eval_trials",
    METADATA,
    number("eval", key=True),
    words("case_id", key=True),
    words("model", key=True),
    words("pack", key=True),
    number("attempt", key=True),
    number("retry"),
    words("run_id"),
    words("grade"),
    octets("outcome"),
)

Table(
    "workers",
    METADATA,
    words("id", key=True),
    words("name"),
    words("role"),
    words("state"),
    words("home"),
    number("slots"),
    words("version"),
    real("started_at"),
    real("lease_until"),
    words("pools", default="',default,'"),
)
Table(
    "refusals",
    METADATA,
    number("run"),
    words("worker"),
    words("reason"),
    real("refused_at"),
    PrimaryKeyConstraint("run", "worker"),
)
Table("key_fingerprints", METADATA, words("name", key=True), words("fingerprint"), real("since"))
Table("named_locks", METADATA, words("name", key=True), words("holder"))
Table("outbox", METADATA, number("run", key=True), number("from_seq"), number("upto_seq"), real("noted_at"))
Table("outbox_messages", METADATA, words("id", key=True), words("subject"), octets("payload"), real("put_at"))

Table(
    "run_vectors",
    METADATA,
    number("run"),
    words("embedder"),
    octets("vector"),
    PrimaryKeyConstraint("embedder", "run"),
)
EMBEDDINGS = Table(
    "embeddings",
    METADATA,
    number("run"),
    words("embedder"),
    Column("embedding", VECTOR, nullable=False),
    PrimaryKeyConstraint("embedder", "run"),
    ForeignKeyConstraint(["embedder", "run"], ["run_vectors.embedder", "run_vectors.run"], ondelete="CASCADE"),
)
"""There only where the extension is."""
OF_EXTENSION = (EMBEDDINGS.name, PASSAGE_EMBEDDINGS.name)
WORDS = Table(
    "run_words",
    METADATA,
    number("rowid", key=True),
    words("text"),
    Column("words", TSVECTOR, Computed("to_tsvector('english'::regconfig, text)", persisted=True)),
)
Index("run_words_words", WORDS.c.words, postgresql_using="gin")
TEXTS = Table("run_text", METADATA, number("rowid", key=True), words("text"), Column("grams", TSVECTOR, nullable=False))
Index("run_text_grams", TEXTS.c.grams, postgresql_using="gin")
Table("run_text_progress", METADATA, number("position"))
ACTIVITY = Table("run_activity", METADATA, number("rowid", key=True), Column("text", TSVECTOR, nullable=False))
Index("run_activity_text", ACTIVITY.c.text, postgresql_using="gin")
Table("run_activity_progress", METADATA, number("position"))

CHAT_SESSIONS = Table(
    "chat_sessions",
    METADATA,
    words("id", key=True),
    words("title"),
    number("has_unread", default="0"),
    real("created_at"),
    real("updated_at"),
    words("owner"),
    words("visibility", default="'private'"),
    words("model_key", default="''"),
    words("pack", default="''"),
    words("node", default="''"),
    words("parent_session", null=True),
    words("parent_message", null=True),
    real("archived_at", null=True),
    words("project", default="''"),
    words("turn", null=True),
    words("last_run", null=True),
    octets("key", null=True),
)
Index("chat_sessions_newest", CHAT_SESSIONS.c.updated_at)
Index("chat_sessions_of_owner", CHAT_SESSIONS.c.owner, CHAT_SESSIONS.c.updated_at)
CHAT_MESSAGES = Table(
    "chat_messages",
    METADATA,
    counter("number"),
    words("id", unique=True),
    words("session_id"),
    words("role"),
    words("content"),
    words("metadata_json"),
    real("created_at"),
)
Index("chat_messages_of_session", CHAT_MESSAGES.c.session_id, CHAT_MESSAGES.c.number)
CHAT_WORDS = Table("chat_words", METADATA, octets("word"), number("message"), PrimaryKeyConstraint("word", "message"))
Index("chat_words_of_message", CHAT_WORDS.c.message)
CHAT_QUEUE = Table(
    "chat_queue",
    METADATA,
    counter("number"),
    words("id", unique=True),
    words("session_id"),
    words("run_id", unique=True),
    words("content"),
    words("asked"),
    real("created_at"),
    words("problem", default="''"),
)
Index("chat_queue_of_session", CHAT_QUEUE.c.session_id, CHAT_QUEUE.c.number)

Table("fabric_format", METADATA, number("version"), number("min_writer", default="0"))


def described(*, left_out: Collection[str] = ()) -> MetaData:
    """Return all tables but those that a database without the extension, or with an old one, does not have."""
    found = MetaData()
    for name, table in METADATA.tables.items():
        if name not in left_out:
            table.to_metadata(found)
    return found
