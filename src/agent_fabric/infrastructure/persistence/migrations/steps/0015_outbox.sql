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
