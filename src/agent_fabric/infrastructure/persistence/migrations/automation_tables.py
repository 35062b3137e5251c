"""The tables of automation as SQLAlchemy describes them; see `tables`."""

from sqlalchemy import Index, PrimaryKeyConstraint, Table, text

from agent_fabric.infrastructure.persistence.migrations.columns import METADATA, counter, number, octets, real, words

DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    words("id", key=True),
    words("kind"),
    words("source"),
    words("reason"),
    octets("payload"),
    real("created_at"),
    words("status"),
    words("settled_by", default="''"),
    real("settled_at", null=True),
    words("outcome", default="''"),
)
Index("dead_letters_age", DEAD_LETTERS.c.created_at)
SCHEDULES = Table(
    "schedules",
    METADATA,
    words("id", key=True),
    words("agent_id"),
    words("cron_expression"),
    words("task_instruction"),
    words("required_model"),
    number("is_active"),
    number("use_persistent_chat"),
    words("chat_session_id"),
    real("created_at"),
    words("name", unique=True),
    words("target_kind"),
    words("target"),
    octets("inputs"),
    real("every_s", null=True),
    real("anchor"),
    words("timezone"),
    words("misfire"),
    words("overlap"),
    real("max_late_s"),
    number("max_catch_up"),
    real("jitter_s"),
    number("pause_after_failures"),
    number("daily_runs", null=True),
    real("starts_at", null=True),
    real("ends_at", null=True),
    real("next_at", null=True),
    number("revision"),
    words("owner"),
    words("paused_by"),
    words("requested_by"),
    words("user_scopes"),
    real("look_at", null=True),
    number("failures", default="0"),
    words("source", default="''"),
    words("on_doubt", default="'ask'"),
)
Index("schedules_due", SCHEDULES.c.look_at, postgresql_where=text("look_at IS NOT NULL"))
FIRING_PROCESSES = Table(
    "firing_processes",
    METADATA,
    words("id", key=True),
    words("server"),
    real("since"),
    real("until_at"),
)
Index("firing_processes_until", FIRING_PROCESSES.c.until_at)
Index("firing_processes_since", FIRING_PROCESSES.c.since)
Index("firing_processes_long", FIRING_PROCESSES.c.until_at, postgresql_where=text("until_at > since"))
SCHEDULE_VERSIONS = Table(
    "schedule_versions",
    METADATA,
    words("name"),
    number("revision"),
    real("since"),
    octets("rule"),
    number("is_active"),
    words("changed_by"),
    number("removed"),
    PrimaryKeyConstraint("name", "since", "revision"),
)
FIRINGS = Table(
    "firings",
    METADATA,
    words("trigger_name", key=True),
    real("due_at", key=True),
    real("until_at"),
    number("count"),
    words("status"),
    words("reason"),
    real("fired_at"),
    words("run_id", null=True),
    words("server"),
    words("about"),
    number("revision"),
    words("outcome", default="''"),
)
Index("firings_queued", FIRINGS.c.trigger_name, FIRINGS.c.due_at, postgresql_where=text("status = 'queued'"))
Index("firings_spans", FIRINGS.c.trigger_name, FIRINGS.c.due_at, postgresql_where=text("until_at > due_at"))
Index("firings_open", FIRINGS.c.trigger_name, postgresql_where=text("status = 'fired' AND outcome = ''"))

HAPPENINGS = Table(
    "happenings",
    METADATA,
    words("sensor", key=True),
    words("key", key=True),
    real("at"),
    words("run_id", null=True),
    words("reason"),
    number("depth"),
)
Index("happenings_age", HAPPENINGS.c.sensor, HAPPENINGS.c.at)
Index("happenings_of_run", HAPPENINGS.c.run_id, postgresql_where=text("run_id IS NOT NULL"))
SENSORS = Table(
    "sensors",
    METADATA,
    words("name", key=True),
    octets("cursor"),
    number("revision"),
    real("looked_at"),
    words("reason"),
)
OUTGOING_MESSAGES = Table(
    "outgoing_messages",
    METADATA,
    counter("number"),
    words("id", unique=True),
    words("subscription"),
    words("message_id"),
    words("line"),
    words("subject"),
    octets("payload"),
    number("attempts"),
    real("next_at"),
    real("created_at"),
)
Index("outgoing_messages_line", OUTGOING_MESSAGES.c.subscription, OUTGOING_MESSAGES.c.line, OUTGOING_MESSAGES.c.number)
Index("outgoing_messages_due", OUTGOING_MESSAGES.c.subscription, OUTGOING_MESSAGES.c.next_at)
SUBSCRIPTIONS = Table(
    "subscriptions",
    METADATA,
    words("name", key=True),
    words("subjects"),
    words("url"),
    words("secret"),
    words("old_secret"),
    real("old_until", null=True),
    number("is_active"),
    words("disabled_because"),
    real("failing_since", null=True),
    words("owner"),
    real("created_at"),
)
