CREATE TABLE key_fingerprints (
    name        TEXT NOT NULL PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    since       REAL NOT NULL
) STRICT;
