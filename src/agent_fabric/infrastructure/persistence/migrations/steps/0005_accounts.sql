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
