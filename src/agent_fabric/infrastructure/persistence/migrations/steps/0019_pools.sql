ALTER TABLE runs ADD COLUMN pool TEXT NOT NULL DEFAULT 'default';
ALTER TABLE workers ADD COLUMN pools TEXT NOT NULL DEFAULT ',default,';
CREATE TABLE refusals (
    run        INTEGER NOT NULL,
    worker     TEXT NOT NULL,
    reason     TEXT NOT NULL,
    refused_at REAL NOT NULL,
    PRIMARY KEY (run, worker)
) STRICT;
