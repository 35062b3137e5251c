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
