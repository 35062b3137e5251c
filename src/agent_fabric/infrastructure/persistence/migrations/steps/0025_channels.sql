CREATE TABLE channel_people (
    channel   TEXT NOT NULL,
    account   TEXT NOT NULL,
    sender    TEXT NOT NULL,
    user_name TEXT NOT NULL,
    chat      TEXT NOT NULL,
    paired_at REAL NOT NULL,
    paired_by TEXT NOT NULL,
    PRIMARY KEY (channel, account, sender)
) STRICT;
CREATE INDEX channel_people_users ON channel_people (user_name);
CREATE TABLE channel_pairings (
    code       TEXT NOT NULL PRIMARY KEY,
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    sender     TEXT NOT NULL,
    chat       TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT;
CREATE INDEX channel_pairings_account ON channel_pairings (channel, account, created_at);
CREATE TABLE channel_inbox (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL,
    key         TEXT NOT NULL,
    chat        TEXT NOT NULL,
    thread      TEXT NOT NULL,
    body        BLOB,
    received_at REAL NOT NULL,
    outcome     TEXT NOT NULL DEFAULT '',
    UNIQUE (channel, account, key)
) STRICT;
CREATE INDEX channel_inbox_pending ON channel_inbox (channel, account, chat, thread, number) WHERE outcome = '';
CREATE INDEX channel_inbox_age ON channel_inbox (received_at);
CREATE TABLE channel_conversations (
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    chat       TEXT NOT NULL,
    thread     TEXT NOT NULL,
    is_direct  INTEGER NOT NULL,
    sender     TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (channel, account, chat, thread)
) STRICT;
CREATE INDEX channel_conversations_session ON channel_conversations (session_id);
CREATE TABLE channel_turns (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     TEXT NOT NULL UNIQUE,
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    chat       TEXT NOT NULL,
    thread     TEXT NOT NULL,
    is_direct  INTEGER NOT NULL,
    sender     TEXT NOT NULL,
    message_id TEXT NOT NULL
) STRICT;
CREATE TABLE channel_outbox (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    source     TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    part       INTEGER NOT NULL,
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    chat       TEXT NOT NULL,
    thread     TEXT NOT NULL,
    is_direct  INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    priority   INTEGER NOT NULL,
    body       BLOB NOT NULL,
    status     TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    next_at    REAL NOT NULL,
    created_at REAL NOT NULL,
    settled_at REAL,
    message_id TEXT NOT NULL DEFAULT '',
    problem    TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX channel_outbox_open ON channel_outbox (channel, account, chat, thread, priority, number)
    WHERE status IN ('queued', 'sending');
CREATE INDEX channel_outbox_source ON channel_outbox (source, seq, part);
CREATE INDEX channel_outbox_message ON channel_outbox (channel, account, chat, message_id) WHERE message_id <> '';
CREATE INDEX channel_outbox_age ON channel_outbox (created_at);
CREATE TABLE channel_notify (
    user_name   TEXT NOT NULL PRIMARY KEY,
    approvals   TEXT NOT NULL,
    alerts      TEXT NOT NULL,
    quiet_hours TEXT NOT NULL,
    timezone    TEXT NOT NULL
) STRICT;
