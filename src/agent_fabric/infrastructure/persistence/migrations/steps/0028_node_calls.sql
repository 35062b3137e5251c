CREATE TABLE node_calls (
    id         TEXT NOT NULL PRIMARY KEY,
    agent_id   TEXT NOT NULL,
    method     TEXT NOT NULL,
    params     TEXT NOT NULL,
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    answer     TEXT
) STRICT;
CREATE INDEX node_calls_waiting ON node_calls (agent_id, created_at) WHERE answer IS NULL;
CREATE INDEX node_commands_of_run ON node_commands (run_id, created_at) WHERE run_id <> '';
