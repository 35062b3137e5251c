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
