CREATE TABLE agents (
    id                   TEXT NOT NULL PRIMARY KEY,
    name                 TEXT NOT NULL,
    hostname             TEXT NOT NULL,
    platform             TEXT NOT NULL,
    arch                 TEXT NOT NULL,
    memory_total         INTEGER,
    supported_tools      TEXT NOT NULL,
    os_info              TEXT NOT NULL,
    status               TEXT NOT NULL,
    last_seen            REAL,
    security_policy_json TEXT NOT NULL,
    public_key           TEXT NOT NULL,
    labels               TEXT NOT NULL,
    generation           INTEGER NOT NULL,
    created_at           REAL NOT NULL,
    note                 TEXT NOT NULL,
    reported             TEXT NOT NULL,
    state                TEXT NOT NULL DEFAULT '',
    previous_state       TEXT NOT NULL DEFAULT '',
    invite               TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX agents_names ON agents (name) WHERE status <> 'revoked';
CREATE INDEX agents_keys ON agents (public_key);
CREATE TABLE node_invites (
    id           TEXT NOT NULL PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    labels       TEXT NOT NULL,
    uses_left    INTEGER NOT NULL,
    confirm      INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   REAL NOT NULL,
    expires_at   REAL NOT NULL
) STRICT;
CREATE TABLE node_commands (
    execution_id   TEXT NOT NULL PRIMARY KEY,
    agent_id       TEXT NOT NULL,
    tool_name      TEXT NOT NULL,
    arguments      TEXT NOT NULL,
    status         TEXT NOT NULL,
    created_at     REAL NOT NULL,
    expires_at     REAL NOT NULL,
    policy_version TEXT NOT NULL,
    bound_hash     TEXT NOT NULL,
    args_hash      TEXT NOT NULL,
    requested_by   TEXT NOT NULL,
    approver       TEXT NOT NULL,
    rule           TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    plan_id        TEXT NOT NULL,
    signatures     TEXT NOT NULL,
    result         TEXT,
    completed_at   REAL
) STRICT;
CREATE INDEX node_commands_open ON node_commands (agent_id, created_at)
    WHERE status IN ('waiting', 'queued', 'sent');
CREATE INDEX node_commands_of_agent ON node_commands (agent_id, created_at);
CREATE TABLE fleet_plans (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    status       TEXT NOT NULL,
    hash         TEXT NOT NULL,
    definition   TEXT NOT NULL,
    progress     TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    approver     TEXT NOT NULL,
    run_id       TEXT NOT NULL,
    created_at   REAL NOT NULL,
    updated_at   REAL NOT NULL
) STRICT;
CREATE INDEX fleet_plans_open ON fleet_plans (created_at) WHERE status IN ('waiting', 'running', 'halted');
CREATE VIEW audit_log AS
    SELECT execution_id AS id, agent_id, tool_name, arguments, result,
           CASE WHEN status IN ('waiting', 'queued', 'sent') THEN 'pending' ELSE status END AS status,
           created_at, completed_at, requested_by, approver, rule, args_hash, run_id
    FROM node_commands;
