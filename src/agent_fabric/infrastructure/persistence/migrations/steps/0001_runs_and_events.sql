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
