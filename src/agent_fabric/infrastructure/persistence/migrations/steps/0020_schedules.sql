CREATE TABLE schedules (
    id                   TEXT NOT NULL PRIMARY KEY,
    agent_id             TEXT NOT NULL,
    cron_expression      TEXT NOT NULL,
    task_instruction     TEXT NOT NULL,
    required_model       TEXT NOT NULL,
    is_active            INTEGER NOT NULL,
    use_persistent_chat  INTEGER NOT NULL,
    chat_session_id      TEXT NOT NULL,
    created_at           REAL NOT NULL,
    name                 TEXT NOT NULL UNIQUE,
    target_kind          TEXT NOT NULL,
    target               TEXT NOT NULL,
    inputs               BLOB NOT NULL,
    every_s              REAL,
    anchor               REAL NOT NULL,
    timezone             TEXT NOT NULL,
    misfire              TEXT NOT NULL,
    overlap              TEXT NOT NULL,
    max_late_s           REAL NOT NULL,
    max_catch_up         INTEGER NOT NULL,
    jitter_s             REAL NOT NULL,
    pause_after_failures INTEGER NOT NULL,
    daily_runs           INTEGER,
    starts_at            REAL,
    ends_at              REAL,
    next_at              REAL,
    revision             INTEGER NOT NULL,
    owner                TEXT NOT NULL,
    paused_by            TEXT NOT NULL,
    requested_by         TEXT NOT NULL,
    user_scopes          TEXT NOT NULL,
    look_at              REAL,
    failures             INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX schedules_due ON schedules (look_at) WHERE look_at IS NOT NULL;
CREATE TABLE schedule_versions (
    name       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    since      REAL NOT NULL,
    rule       BLOB NOT NULL,
    is_active  INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    removed    INTEGER NOT NULL,
    PRIMARY KEY (name, since, revision)
) STRICT;
CREATE TABLE firings (
    trigger_name TEXT NOT NULL,
    due_at       REAL NOT NULL,
    until_at     REAL NOT NULL,
    count        INTEGER NOT NULL,
    status       TEXT NOT NULL,
    reason       TEXT NOT NULL,
    fired_at     REAL NOT NULL,
    run_id       TEXT,
    server       TEXT NOT NULL,
    about        TEXT NOT NULL,
    revision     INTEGER NOT NULL,
    outcome      TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (trigger_name, due_at)
) STRICT;
CREATE INDEX firings_open ON firings (trigger_name) WHERE status = 'fired' AND outcome = '';
CREATE INDEX firings_queued ON firings (trigger_name, due_at) WHERE status = 'queued';
CREATE TABLE firing_processes (
    id       TEXT NOT NULL PRIMARY KEY,
    server   TEXT NOT NULL,
    since    REAL NOT NULL,
    until_at REAL NOT NULL
) STRICT;
CREATE INDEX firing_processes_until ON firing_processes (until_at);
CREATE TABLE dead_letters (
    id         TEXT NOT NULL PRIMARY KEY,
    kind       TEXT NOT NULL,
    source     TEXT NOT NULL,
    reason     TEXT NOT NULL,
    payload    BLOB NOT NULL,
    created_at REAL NOT NULL,
    status     TEXT NOT NULL,
    settled_by TEXT NOT NULL DEFAULT '',
    settled_at REAL,
    outcome    TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX dead_letters_age ON dead_letters (created_at);
