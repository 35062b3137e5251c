"""The tables, for every database: `Dialect.schema` maps column types, views and full-text tables."""

from typing import Final

from agent_fabric.infrastructure.persistence.automation.schema import SUBSCRIPTIONS
from agent_fabric.infrastructure.persistence.schema_capabilities import CAPABILITIES

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id     TEXT NOT NULL UNIQUE,
        status     TEXT NOT NULL,
        created_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE events (
        position   INTEGER PRIMARY KEY AUTOINCREMENT,
        run        INTEGER NOT NULL,
        seq        INTEGER NOT NULL,
        ts         REAL NOT NULL,
        kind       TEXT NOT NULL,
        version    INTEGER NOT NULL,
        lane       TEXT,
        step       TEXT NOT NULL,
        payload    BLOB NOT NULL,
        hash       BLOB NOT NULL,
        UNIQUE (run, seq)
    ) STRICT;
    CREATE TABLE blobs (
        hash       BLOB NOT NULL PRIMARY KEY,
        data       BLOB NOT NULL
    ) STRICT;
    CREATE TABLE inbox (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        run        INTEGER NOT NULL,
        kind       TEXT NOT NULL,
        payload    BLOB NOT NULL,
        created_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX inbox_of_run ON inbox (run);
    CREATE TABLE drivers (
        run        INTEGER PRIMARY KEY,
        holder     TEXT NOT NULL,
        since      REAL NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE run_vectors (
        run        INTEGER NOT NULL,
        embedder   TEXT NOT NULL,
        vector     BLOB NOT NULL,
        PRIMARY KEY (embedder, run)
    ) STRICT;
    CREATE VIRTUAL TABLE run_words USING fts5 (
        text, content = '', columnsize = 1, tokenize = 'porter unicode61 remove_diacritics 2'
    );
    """,
    """
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
    """,
    """
    ALTER TABLE runs ADD COLUMN wake_at REAL;
    ALTER TABLE runs ADD COLUMN parent INTEGER;
    CREATE INDEX runs_to_wake ON runs (wake_at) WHERE status = 'waiting';
    CREATE INDEX runs_below ON runs (parent) WHERE parent IS NOT NULL;
    CREATE VIEW workflow_checkpoints AS
        SELECT runs.run_id, events.lane, body ->> 'step_id' AS step_id, body ->> 'attempt' AS attempt,
               body ->> 'status' AS status, body -> 'outputs' AS outputs, nullif(body ->> 'error', '') AS error,
               events.seq, events.ts AS created_at
        FROM (SELECT run, lane, seq, ts, CAST(payload AS TEXT) AS body FROM events WHERE kind = 'step_finished')
             AS events JOIN runs ON runs.number = events.run;
    CREATE VIEW data_lineage AS
        SELECT runs.run_id, events.lane, body ->> 'step_id' AS step_id, body ->> 'attempt' AS attempt,
               iif(events.kind = 'step_started', 'input', 'output') AS fed, target.key AS name, source.value AS source,
               events.ts AS created_at
        FROM (SELECT run, lane, kind, ts, CAST(payload AS TEXT) AS body FROM events
              WHERE kind IN ('step_started', 'step_finished')) AS events
             JOIN runs ON runs.number = events.run,
             json_each(body -> 'reads') AS target, json_each(target.value) AS source;
    """,
    """
    CREATE TABLE users (
        name         TEXT NOT NULL PRIMARY KEY,
        password     TEXT NOT NULL DEFAULT '',
        role         TEXT NOT NULL,
        scopes       TEXT NOT NULL DEFAULT '[]',
        disabled     INTEGER NOT NULL DEFAULT 0,
        tokens_after REAL NOT NULL DEFAULT 0,
        created_at   REAL NOT NULL
    ) STRICT;
    CREATE TABLE api_keys (
        id           TEXT NOT NULL PRIMARY KEY,
        name         TEXT NOT NULL,
        hash         BLOB NOT NULL UNIQUE,
        scopes       TEXT NOT NULL,
        created_by   TEXT NOT NULL,
        created_at   REAL NOT NULL,
        expires_at   REAL,
        revoked_at   REAL,
        last_used_at REAL
    ) STRICT;
    CREATE TABLE run_keys (
        run          INTEGER PRIMARY KEY,
        key          BLOB NOT NULL
    ) STRICT;
    CREATE TABLE idempotency (
        principal    TEXT NOT NULL,
        key          TEXT NOT NULL,
        request      BLOB NOT NULL,
        run_id       TEXT NOT NULL,
        status       INTEGER,
        headers      BLOB,
        body         BLOB,
        created_at   REAL NOT NULL,
        PRIMARY KEY (principal, key)
    ) STRICT;
    CREATE INDEX idempotency_age ON idempotency (created_at);
    CREATE TABLE rate_limits (
        key          TEXT NOT NULL PRIMARY KEY,
        hits         INTEGER NOT NULL,
        expires_at   REAL NOT NULL
    ) STRICT;
    CREATE TABLE deliveries (
        source       TEXT NOT NULL,
        delivery     TEXT NOT NULL,
        received_at  REAL NOT NULL,
        PRIMARY KEY (source, delivery)
    ) STRICT;
    """,
    """
    CREATE VIRTUAL TABLE run_text USING fts5 (
        text, short, content = '', contentless_delete = 1, tokenize = 'trigram'
    );
    CREATE TABLE run_text_progress (
        position   INTEGER NOT NULL
    ) STRICT;
    INSERT INTO run_text_progress (position) VALUES (0);
    """,
    """
    ALTER TABLE runs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
    ALTER TABLE runs ADD COLUMN visibility TEXT NOT NULL DEFAULT 'team';
    """,
    """
    CREATE TABLE ended_logins (
        id           TEXT NOT NULL PRIMARY KEY,
        until        REAL NOT NULL
    ) STRICT;
    """,
    """
    ALTER TABLE runs ADD COLUMN continues INTEGER;
    CREATE INDEX runs_continuing ON runs (continues) WHERE continues IS NOT NULL;
    """,
    """
    CREATE VIRTUAL TABLE run_activity USING fts5 (
        text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
    );
    CREATE TABLE run_activity_progress (
        position   INTEGER NOT NULL
    ) STRICT;
    INSERT INTO run_activity_progress (position) VALUES (0);
    """,
    """
    ALTER TABLE runs ADD COLUMN trial_of TEXT NOT NULL DEFAULT '';
    CREATE INDEX runs_of_trials ON runs (trial_of) WHERE trial_of <> '';
    CREATE TABLE evals (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        eval_id    TEXT NOT NULL UNIQUE,
        name       TEXT NOT NULL,
        status     TEXT NOT NULL,
        owner      TEXT NOT NULL,
        visibility TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        total      INTEGER NOT NULL,
        asked      BLOB NOT NULL,
        definition BLOB NOT NULL
    ) STRICT;
    CREATE TABLE eval_trials (
        eval       INTEGER NOT NULL,
        case_id    TEXT NOT NULL,
        model      TEXT NOT NULL,
        pack       TEXT NOT NULL,
        attempt    INTEGER NOT NULL,
        retry      INTEGER NOT NULL,
        run_id     TEXT NOT NULL,
        verdict    TEXT NOT NULL,
        outcome    BLOB NOT NULL,
        PRIMARY KEY (eval, case_id, model, pack, attempt)
    ) STRICT;
    """,
    """
    ALTER TABLE eval_trials RENAME COLUMN verdict TO grade;
    """,
    """
    CREATE TABLE workers (
        id          TEXT NOT NULL PRIMARY KEY,
        name        TEXT NOT NULL,
        role        TEXT NOT NULL,
        state       TEXT NOT NULL,
        home        TEXT NOT NULL,
        slots       INTEGER NOT NULL,
        version     TEXT NOT NULL,
        started_at  REAL NOT NULL,
        lease_until REAL NOT NULL
    ) STRICT;
    ALTER TABLE runs ADD COLUMN driver TEXT NOT NULL DEFAULT '';
    ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE runs ADD COLUMN home TEXT NOT NULL DEFAULT '';
    CREATE INDEX runs_in_work ON runs (number) WHERE status = 'running';
    """,
    """
    CREATE TABLE key_fingerprints (
        name        TEXT NOT NULL PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        since       REAL NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE outbox (
        run      INTEGER NOT NULL PRIMARY KEY,
        from_seq INTEGER NOT NULL,
        upto_seq INTEGER NOT NULL,
        noted_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE outbox_messages (
        id       TEXT NOT NULL PRIMARY KEY,
        subject  TEXT NOT NULL,
        payload  BLOB NOT NULL,
        put_at   REAL NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE named_locks (
        name   TEXT NOT NULL PRIMARY KEY,
        holder TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE audit_strands (
        strand   TEXT NOT NULL,
        number   INTEGER NOT NULL,
        at       REAL NOT NULL,
        kind     TEXT NOT NULL,
        run      INTEGER NOT NULL,
        run_id   TEXT NOT NULL,
        events   INTEGER NOT NULL,
        head     BLOB NOT NULL,
        note     TEXT NOT NULL,
        key      TEXT NOT NULL,
        hash     BLOB NOT NULL,
        PRIMARY KEY (strand, number)
    ) STRICT;
    CREATE TABLE open_strands (
        strand   TEXT NOT NULL PRIMARY KEY,
        tied     INTEGER NOT NULL
    ) STRICT;
    """,
    """
    ALTER TABLE runs ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
    CREATE INDEX runs_of_session ON runs (session_id, number) WHERE session_id <> '';
    CREATE TABLE chat_sessions (
        id             TEXT NOT NULL PRIMARY KEY,
        title          TEXT NOT NULL,
        has_unread     INTEGER NOT NULL DEFAULT 0,
        created_at     REAL NOT NULL,
        updated_at     REAL NOT NULL,
        owner          TEXT NOT NULL,
        visibility     TEXT NOT NULL DEFAULT 'private',
        model_key      TEXT NOT NULL DEFAULT '',
        pack           TEXT NOT NULL DEFAULT '',
        node           TEXT NOT NULL DEFAULT '',
        parent_session TEXT,
        parent_message TEXT,
        archived_at    REAL,
        project        TEXT NOT NULL DEFAULT '',
        turn           TEXT,
        last_run       TEXT,
        key            BLOB
    ) STRICT;
    CREATE INDEX chat_sessions_newest ON chat_sessions (updated_at);
    CREATE INDEX chat_sessions_of_owner ON chat_sessions (owner, updated_at);
    CREATE TABLE chat_messages (
        number         INTEGER PRIMARY KEY AUTOINCREMENT,
        id             TEXT NOT NULL UNIQUE,
        session_id     TEXT NOT NULL,
        role           TEXT NOT NULL,
        content        TEXT NOT NULL,
        metadata_json  TEXT NOT NULL,
        created_at     REAL NOT NULL
    ) STRICT;
    CREATE INDEX chat_messages_of_session ON chat_messages (session_id, number);
    CREATE TABLE chat_words (
        word           BLOB NOT NULL,
        message        INTEGER NOT NULL,
        PRIMARY KEY (word, message)
    ) STRICT;
    CREATE INDEX chat_words_of_message ON chat_words (message);
    CREATE TABLE chat_queue (
        number         INTEGER PRIMARY KEY AUTOINCREMENT,
        id             TEXT NOT NULL UNIQUE,
        session_id     TEXT NOT NULL,
        run_id         TEXT NOT NULL UNIQUE,
        content        TEXT NOT NULL,
        asked          TEXT NOT NULL,
        created_at     REAL NOT NULL,
        problem        TEXT NOT NULL DEFAULT ''
    ) STRICT;
    CREATE INDEX chat_queue_of_session ON chat_queue (session_id, number);
    """,
    """
    ALTER TABLE runs ADD COLUMN pool TEXT NOT NULL DEFAULT 'default';
    ALTER TABLE workers ADD COLUMN pools TEXT NOT NULL DEFAULT ',default,';
    CREATE TABLE refusals (
        run        INTEGER NOT NULL,
        worker     TEXT NOT NULL,
        reason     TEXT NOT NULL,
        refused_at REAL NOT NULL,
        PRIMARY KEY (run, worker)
    ) STRICT;
    """,
    """
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
    """,
    """
    ALTER TABLE schedules ADD COLUMN source TEXT NOT NULL DEFAULT '';
    CREATE TABLE sensors (
        name      TEXT NOT NULL PRIMARY KEY,
        cursor    BLOB NOT NULL,
        revision  INTEGER NOT NULL,
        looked_at REAL NOT NULL,
        reason    TEXT NOT NULL
    ) STRICT;
    CREATE TABLE happenings (
        sensor TEXT NOT NULL,
        key    TEXT NOT NULL,
        at     REAL NOT NULL,
        run_id TEXT,
        reason TEXT NOT NULL,
        depth  INTEGER NOT NULL,
        PRIMARY KEY (sensor, key)
    ) STRICT;
    CREATE INDEX happenings_of_run ON happenings (run_id) WHERE run_id IS NOT NULL;
    CREATE INDEX happenings_age ON happenings (sensor, at);
    """,
    SUBSCRIPTIONS,
    """
    CREATE VIEW sessions AS
        SELECT id, owner, title, created_at, updated_at FROM chat_sessions;
    """,
    *CAPABILITIES,
)
"""Each entry lifts the file by one version. Never changed after a release, only added to."""

FORMAT_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS fabric_format (version BIGINT NOT NULL)",
    "ALTER TABLE fabric_format ADD COLUMN IF NOT EXISTS min_writer BIGINT NOT NULL DEFAULT 0",
)
"""Where a PostgreSQL database keeps its format, and what a program has to know at least to use it."""
MIN_WRITER: Final = 19
"""The oldest format whose programs may use the newest tables; others hand over and end. It rises only with a migration
that changes or removes something, so that processes of the last release go on beside those of this one."""
