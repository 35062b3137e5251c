CREATE TABLE workers (
    id          TEXT NOT NULL PRIMARY KEY,
    name        TEXT NOT NULL,
    role        TEXT NOT NULL,
    state       TEXT NOT NULL,
    home        TEXT NOT NULL,
    slots       INTEGER NOT NULL,
    version     TEXT NOT NULL,
    started_at  REAL NOT NULL,
    lease_until REAL NOT NULL
) STRICT;
ALTER TABLE runs ADD COLUMN driver TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN home TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_in_work ON runs (number) WHERE status = 'running';
