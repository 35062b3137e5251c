ALTER TABLE schedules ADD COLUMN source TEXT NOT NULL DEFAULT '';
CREATE TABLE sensors (
    name      TEXT NOT NULL PRIMARY KEY,
    cursor    BLOB NOT NULL,
    revision  INTEGER NOT NULL,
    looked_at REAL NOT NULL,
    reason    TEXT NOT NULL
) STRICT;
CREATE TABLE happenings (
    sensor TEXT NOT NULL,
    key    TEXT NOT NULL,
    at     REAL NOT NULL,
    run_id TEXT,
    reason TEXT NOT NULL,
    depth  INTEGER NOT NULL,
    PRIMARY KEY (sensor, key)
) STRICT;
CREATE INDEX happenings_of_run ON happenings (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX happenings_age ON happenings (sensor, at);
