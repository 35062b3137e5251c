CREATE TABLE ended_logins (
    id           TEXT NOT NULL PRIMARY KEY,
    until        REAL NOT NULL
) STRICT;
