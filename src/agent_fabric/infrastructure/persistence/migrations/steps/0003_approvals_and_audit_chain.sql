CREATE TABLE pending_approvals (
    id              TEXT NOT NULL PRIMARY KEY,
    run             INTEGER NOT NULL,
    execution_id    TEXT NOT NULL,
    agent_id        TEXT,
    tool_name       TEXT NOT NULL,
    arguments       BLOB NOT NULL,
    status          TEXT NOT NULL,
    session_id      TEXT,
    created_at      REAL NOT NULL,
    expires_at      REAL NOT NULL,
    card            BLOB NOT NULL,
    decided_by      TEXT NOT NULL DEFAULT '',
    decided_at      REAL,
    decided_because TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX approvals_pending ON pending_approvals (expires_at) WHERE status = 'pending';
CREATE INDEX approvals_of_run ON pending_approvals (run);
CREATE TABLE audit_chain (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    at         REAL NOT NULL,
    kind       TEXT NOT NULL,
    run        INTEGER NOT NULL,
    run_id     TEXT NOT NULL,
    events     INTEGER NOT NULL,
    head       BLOB NOT NULL,
    note       TEXT NOT NULL,
    key        TEXT NOT NULL,
    hash       BLOB NOT NULL
) STRICT;
CREATE INDEX audit_chain_hash ON audit_chain (hash);
