"""The tables of machines as SQLAlchemy describes them; see `tables`."""

from sqlalchemy import Index, Table, text

from agent_fabric.infrastructure.persistence.migrations.columns import METADATA, number, octets, real, words

AGENTS = Table(
    "agents",
    METADATA,
    words("id", key=True),
    *(words(name) for name in ("name", "hostname", "platform", "arch")),
    number("memory_total", null=True),
    *(words(name) for name in ("supported_tools", "os_info", "status")),
    real("last_seen", null=True),
    *(words(name) for name in ("security_policy_json", "public_key", "labels")),
    number("generation"),
    real("created_at"),
    *(words(name) for name in ("note", "reported")),
    *(words(name, default="''") for name in ("state", "previous_state", "invite", "held_by")),
)
Index("agents_names", AGENTS.c.name, unique=True, postgresql_where=text("status <> 'revoked'"))
Index("agents_keys", AGENTS.c.public_key)
Table(
    "node_invites",
    METADATA,
    words("id", key=True),
    octets("hash", unique=True),
    words("name"),
    words("labels"),
    number("uses_left"),
    number("confirm"),
    words("created_by"),
    real("created_at"),
    real("expires_at"),
)
NODE_COMMANDS = Table(
    "node_commands",
    METADATA,
    words("execution_id", key=True),
    *(words(name) for name in ("agent_id", "tool_name", "arguments", "status")),
    real("created_at"),
    real("expires_at"),
    *(words(name) for name in ("policy_version", "bound_hash", "args_hash", "requested_by", "approver", "rule")),
    *(words(name) for name in ("run_id", "plan_id", "signatures")),
    words("result", null=True),
    real("completed_at", null=True),
)
Index(
    "node_commands_open",
    NODE_COMMANDS.c.agent_id,
    NODE_COMMANDS.c.created_at,
    postgresql_where=text("status IN ('waiting', 'queued', 'sent')"),
)
Index("node_commands_of_agent", NODE_COMMANDS.c.agent_id, NODE_COMMANDS.c.created_at)
Index("node_commands_of_run", NODE_COMMANDS.c.run_id, NODE_COMMANDS.c.created_at, postgresql_where=text("run_id <> ''"))
FLEET_PLANS = Table(
    "fleet_plans",
    METADATA,
    words("id", key=True),
    *(words(name) for name in ("name", "status", "hash", "definition", "progress", "created_by", "approver", "run_id")),
    real("created_at"),
    real("updated_at"),
)
Index(
    "fleet_plans_open",
    FLEET_PLANS.c.created_at,
    postgresql_where=text("status IN ('waiting', 'running', 'halted')"),
)
NODE_CALLS = Table(
    "node_calls",
    METADATA,
    words("id", key=True),
    *(words(name) for name in ("agent_id", "method", "params")),
    real("created_at"),
    real("expires_at"),
    words("answer", null=True),
)
Index("node_calls_waiting", NODE_CALLS.c.agent_id, NODE_CALLS.c.created_at, postgresql_where=text("answer IS NULL"))
