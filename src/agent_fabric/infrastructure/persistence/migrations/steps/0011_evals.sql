ALTER TABLE runs ADD COLUMN trial_of TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_of_trials ON runs (trial_of) WHERE trial_of <> '';
CREATE TABLE evals (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    eval_id    TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    status     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    visibility TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    total      INTEGER NOT NULL,
    asked      BLOB NOT NULL,
    definition BLOB NOT NULL
) STRICT;
CREATE TABLE eval_trials (
    eval       INTEGER NOT NULL,
    case_id    TEXT NOT NULL,
    model      TEXT NOT NULL,
    pack       TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    retry      INTEGER NOT NULL,
    run_id     TEXT NOT NULL,
    verdict    TEXT NOT NULL,
    outcome    BLOB NOT NULL,
    PRIMARY KEY (eval, case_id, model, pack, attempt)
) STRICT;
