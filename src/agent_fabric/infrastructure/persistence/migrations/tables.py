"""The tables as SQLAlchemy describes them, for migrations only: the product never imports this.

What makes the tables is the text in `schema.MIGRATIONS`. This description lets alembic say what a database differs in,
and a test compares both, column by column.
"""

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    BigInteger,
    Column,
    Computed,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

METADATA = MetaData()


def _number(name: str, *, key: bool = False, default: str | None = None, null: bool = False) -> "Column[int]":
    given = None if default is None else text(default)
    return Column(name, BigInteger, primary_key=key, autoincrement=False, nullable=null, server_default=given)


def _counter(name: str) -> "Column[int]":
    return Column(name, BigInteger, Identity(always=False), primary_key=True)


def _text(
    name: str, *, key: bool = False, unique: bool = False, default: str | None = None, null: bool = False
) -> "Column[str]":
    given = None if default is None else text(default)
    return Column(name, Text, primary_key=key, unique=unique or None, nullable=null, server_default=given)


def _real(name: str, *, key: bool = False, default: str | None = None, null: bool = False) -> "Column[float]":
    given = None if default is None else text(default)
    return Column(name, Double, primary_key=key, nullable=null, server_default=given)


def _bytes(name: str, *, key: bool = False, unique: bool = False, null: bool = False) -> "Column[bytes]":
    return Column(name, LargeBinary, primary_key=key, unique=unique or None, nullable=null)


RUNS = Table(
    "runs",
    METADATA,
    _counter("number"),
    _text("run_id", unique=True),
    _text("status"),
    _real("created_at"),
    _real("wake_at", null=True),
    _number("parent", null=True),
    _text("owner", default="''"),
    _text("visibility", default="'team'"),
    _number("continues", null=True),
    _text("trial_of", default="''"),
    _text("driver", default="''"),
    _number("epoch", default="0"),
    _text("home", default="''"),
    _text("session_id", default="''"),
    _text("pool", default="'default'"),
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
    _counter("position"),
    _number("run"),
    _number("seq"),
    _real("ts"),
    _text("kind"),
    _number("version"),
    _text("lane", null=True),
    _text("step"),
    _bytes("payload"),
    _bytes("hash"),
)
EVENTS.append_constraint(UniqueConstraint("run", "seq"))
Table("blobs", METADATA, _bytes("hash", key=True), _bytes("data"))
INBOX = Table("inbox", METADATA, _counter("id"), _number("run"), _text("kind"), _bytes("payload"), _real("created_at"))
Index("inbox_of_run", INBOX.c.run)
Table("drivers", METADATA, _number("run", key=True), _text("holder"), _real("since"))
Table("run_keys", METADATA, _number("run", key=True), _bytes("key"))

APPROVALS = Table(
    "pending_approvals",
    METADATA,
    _text("id", key=True),
    _number("run"),
    _text("execution_id"),
    _text("agent_id", null=True),
    _text("tool_name"),
    _bytes("arguments"),
    _text("status"),
    _text("session_id", null=True),
    _real("created_at"),
    _real("expires_at"),
    _bytes("card"),
    _text("decided_by", default="''"),
    _real("decided_at", null=True),
    _text("decided_because", default="''"),
)
Index("approvals_pending", APPROVALS.c.expires_at, postgresql_where=text("status = 'pending'"))
Index("approvals_of_run", APPROVALS.c.run)


def _sealed() -> "tuple[Column[float], Column[str], Column[int], Column[str], Column[int], Column[bytes]]":
    return _real("at"), _text("kind"), _number("run"), _text("run_id"), _number("events"), _bytes("head")


CHAIN = Table("audit_chain", METADATA, _counter("position"), *_sealed(), _text("note"), _text("key"), _bytes("hash"))
Index("audit_chain_hash", CHAIN.c.hash)
Table(
    "audit_strands",
    METADATA,
    _text("strand", key=True),
    _number("number", key=True),
    *_sealed(),
    _text("note"),
    _text("key"),
    _bytes("hash"),
)
Table("open_strands", METADATA, _text("strand", key=True), _number("tied"))

Table(
    "users",
    METADATA,
    _text("name", key=True),
    _text("password", default="''"),
    _text("role"),
    _text("scopes", default="'[]'"),
    _number("disabled", default="0"),
    _real("tokens_after", default="0"),
    _real("created_at"),
)
Table(
    "api_keys",
    METADATA,
    _text("id", key=True),
    _text("name"),
    _bytes("hash", unique=True),
    _text("scopes"),
    _text("created_by"),
    _real("created_at"),
    _real("expires_at", null=True),
    _real("revoked_at", null=True),
    _real("last_used_at", null=True),
)
Table("ended_logins", METADATA, _text("id", key=True), _real("until"))
IDEMPOTENCY = Table(
    "idempotency",
    METADATA,
    _text("principal", key=True),
    _text("key", key=True),
    _bytes("request"),
    _text("run_id"),
    _number("status", null=True),
    _bytes("headers", null=True),
    _bytes("body", null=True),
    _real("created_at"),
)
Index("idempotency_age", IDEMPOTENCY.c.created_at)
Table("rate_limits", METADATA, _text("key", key=True), _number("hits"), _real("expires_at"))
Table("deliveries", METADATA, _text("source", key=True), _text("delivery", key=True), _real("received_at"))

Table(
    "evals",
    METADATA,
    _counter("number"),
    _text("eval_id", unique=True),
    _text("name"),
    _text("status"),
    _text("owner"),
    _text("visibility"),
    _real("created_at"),
    _real("updated_at"),
    _number("total"),
    _bytes("asked"),
    _bytes("definition"),
)
Table(
    "eval_trials",
    METADATA,
    _number("eval", key=True),
    _text("case_id", key=True),
    _text("model", key=True),
    _text("pack", key=True),
    _number("attempt", key=True),
    _number("retry"),
    _text("run_id"),
    _text("grade"),
    _bytes("outcome"),
)

Table(
    "workers",
    METADATA,
    _text("id", key=True),
    _text("name"),
    _text("role"),
    _text("state"),
    _text("home"),
    _number("slots"),
    _text("version"),
    _real("started_at"),
    _real("lease_until"),
    _text("pools", default="',default,'"),
)
Table(
    "refusals",
    METADATA,
    _number("run"),
    _text("worker"),
    _text("reason"),
    _real("refused_at"),
    PrimaryKeyConstraint("run", "worker"),
)
Table("key_fingerprints", METADATA, _text("name", key=True), _text("fingerprint"), _real("since"))
Table("named_locks", METADATA, _text("name", key=True), _text("holder"))
Table("outbox", METADATA, _number("run", key=True), _number("from_seq"), _number("upto_seq"), _real("noted_at"))
Table("outbox_messages", METADATA, _text("id", key=True), _text("subject"), _bytes("payload"), _real("put_at"))

Table(
    "run_vectors",
    METADATA,
    _number("run"),
    _text("embedder"),
    _bytes("vector"),
    PrimaryKeyConstraint("embedder", "run"),
)
EMBEDDINGS = Table(
    "embeddings",
    METADATA,
    _number("run"),
    _text("embedder"),
    Column("embedding", VECTOR, nullable=False),
    PrimaryKeyConstraint("embedder", "run"),
    ForeignKeyConstraint(["embedder", "run"], ["run_vectors.embedder", "run_vectors.run"], ondelete="CASCADE"),
)
"""There only where the extension is."""
WORDS = Table(
    "run_words",
    METADATA,
    _number("rowid", key=True),
    _text("text"),
    Column("words", TSVECTOR, Computed("to_tsvector('english'::regconfig, text)", persisted=True)),
)
Index("run_words_words", WORDS.c.words, postgresql_using="gin")
TEXTS = Table(
    "run_text", METADATA, _number("rowid", key=True), _text("text"), Column("grams", TSVECTOR, nullable=False)
)
Index("run_text_grams", TEXTS.c.grams, postgresql_using="gin")
Table("run_text_progress", METADATA, _number("position"))
ACTIVITY = Table("run_activity", METADATA, _number("rowid", key=True), Column("text", TSVECTOR, nullable=False))
Index("run_activity_text", ACTIVITY.c.text, postgresql_using="gin")
Table("run_activity_progress", METADATA, _number("position"))

CHAT_SESSIONS = Table(
    "chat_sessions",
    METADATA,
    _text("id", key=True),
    _text("title"),
    _number("has_unread", default="0"),
    _real("created_at"),
    _real("updated_at"),
    _text("owner"),
    _text("visibility", default="'private'"),
    _text("model_key", default="''"),
    _text("pack", default="''"),
    _text("node", default="''"),
    _text("parent_session", null=True),
    _text("parent_message", null=True),
    _real("archived_at", null=True),
    _text("project", default="''"),
    _text("turn", null=True),
    _text("last_run", null=True),
    _bytes("key", null=True),
)
Index("chat_sessions_newest", CHAT_SESSIONS.c.updated_at)
Index("chat_sessions_of_owner", CHAT_SESSIONS.c.owner, CHAT_SESSIONS.c.updated_at)
CHAT_MESSAGES = Table(
    "chat_messages",
    METADATA,
    _counter("number"),
    _text("id", unique=True),
    _text("session_id"),
    _text("role"),
    _text("content"),
    _text("metadata_json"),
    _real("created_at"),
)
Index("chat_messages_of_session", CHAT_MESSAGES.c.session_id, CHAT_MESSAGES.c.number)
CHAT_WORDS = Table("chat_words", METADATA, _bytes("word"), _number("message"), PrimaryKeyConstraint("word", "message"))
Index("chat_words_of_message", CHAT_WORDS.c.message)
CHAT_QUEUE = Table(
    "chat_queue",
    METADATA,
    _counter("number"),
    _text("id", unique=True),
    _text("session_id"),
    _text("run_id", unique=True),
    _text("content"),
    _text("asked"),
    _real("created_at"),
    _text("problem", default="''"),
)
Index("chat_queue_of_session", CHAT_QUEUE.c.session_id, CHAT_QUEUE.c.number)

DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    _text("id", key=True),
    _text("kind"),
    _text("source"),
    _text("reason"),
    _bytes("payload"),
    _real("created_at"),
    _text("status"),
    _text("settled_by", default="''"),
    _real("settled_at", null=True),
    _text("outcome", default="''"),
)
Index("dead_letters_age", DEAD_LETTERS.c.created_at)
SCHEDULES = Table(
    "schedules",
    METADATA,
    _text("id", key=True),
    _text("agent_id"),
    _text("cron_expression"),
    _text("task_instruction"),
    _text("required_model"),
    _number("is_active"),
    _number("use_persistent_chat"),
    _text("chat_session_id"),
    _real("created_at"),
    _text("name", unique=True),
    _text("target_kind"),
    _text("target"),
    _bytes("inputs"),
    _real("every_s", null=True),
    _real("anchor"),
    _text("timezone"),
    _text("misfire"),
    _text("overlap"),
    _real("max_late_s"),
    _number("max_catch_up"),
    _real("jitter_s"),
    _number("pause_after_failures"),
    _number("daily_runs", null=True),
    _real("starts_at", null=True),
    _real("ends_at", null=True),
    _real("next_at", null=True),
    _number("revision"),
    _text("owner"),
    _text("paused_by"),
    _text("requested_by"),
    _text("user_scopes"),
    _real("look_at", null=True),
    _number("failures", default="0"),
)
Index("schedules_due", SCHEDULES.c.look_at, postgresql_where=text("look_at IS NOT NULL"))
FIRING_PROCESSES = Table(
    "firing_processes",
    METADATA,
    _text("id", key=True),
    _text("server"),
    _real("since"),
    _real("until_at"),
)
Index("firing_processes_until", FIRING_PROCESSES.c.until_at)
SCHEDULE_VERSIONS = Table(
    "schedule_versions",
    METADATA,
    _text("name"),
    _number("revision"),
    _real("since"),
    _bytes("rule"),
    _number("is_active"),
    _text("changed_by"),
    _number("removed"),
    PrimaryKeyConstraint("name", "since", "revision"),
)
FIRINGS = Table(
    "firings",
    METADATA,
    _text("trigger_name", key=True),
    _real("due_at", key=True),
    _real("until_at"),
    _number("count"),
    _text("status"),
    _text("reason"),
    _real("fired_at"),
    _text("run_id", null=True),
    _text("server"),
    _text("about"),
    _number("revision"),
    _text("outcome", default="''"),
)
Index("firings_queued", FIRINGS.c.trigger_name, FIRINGS.c.due_at, postgresql_where=text("status = 'queued'"))
Index("firings_open", FIRINGS.c.trigger_name, postgresql_where=text("status = 'fired' AND outcome = ''"))

Table("fabric_format", METADATA, _number("version"), _number("min_writer", default="0"))


def expect_vectors(metadata: MetaData, *, there: bool) -> None:
    """Expect the table of vectors only where the extension is."""
    if not there:
        metadata.remove(EMBEDDINGS)
