CREATE TABLE named_locks (
    name   TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL
) STRICT;
