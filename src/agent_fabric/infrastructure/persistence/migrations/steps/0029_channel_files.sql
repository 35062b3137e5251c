CREATE TABLE channel_files (
    run_id     TEXT NOT NULL,
    path       TEXT NOT NULL,
    body       BLOB NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (run_id, path)
) STRICT;
CREATE INDEX channel_files_age ON channel_files (created_at);
