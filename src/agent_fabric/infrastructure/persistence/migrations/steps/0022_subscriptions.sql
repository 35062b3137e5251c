CREATE TABLE subscriptions (
    name             TEXT NOT NULL PRIMARY KEY,
    subjects         TEXT NOT NULL,
    url              TEXT NOT NULL,
    secret           TEXT NOT NULL,
    old_secret       TEXT NOT NULL,
    old_until        REAL,
    is_active        INTEGER NOT NULL,
    disabled_because TEXT NOT NULL,
    failing_since    REAL,
    owner            TEXT NOT NULL,
    created_at       REAL NOT NULL
) STRICT;
CREATE TABLE outgoing_messages (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    subscription TEXT NOT NULL,
    message_id   TEXT NOT NULL,
    line         TEXT NOT NULL,
    subject      TEXT NOT NULL,
    payload      BLOB NOT NULL,
    attempts     INTEGER NOT NULL,
    next_at      REAL NOT NULL,
    created_at   REAL NOT NULL
) STRICT;
CREATE INDEX outgoing_messages_due ON outgoing_messages (subscription, next_at);
CREATE INDEX outgoing_messages_line ON outgoing_messages (subscription, line, number);
