CREATE TABLE documents (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    owner        TEXT NOT NULL,
    visibility   TEXT NOT NULL,
    title        TEXT NOT NULL,
    source       TEXT NOT NULL,
    media_type   TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    size         INTEGER NOT NULL,
    state        TEXT NOT NULL,
    problem      TEXT NOT NULL,
    notes        TEXT NOT NULL,
    labels       TEXT NOT NULL,
    passages     INTEGER NOT NULL DEFAULT 0,
    embedded     INTEGER NOT NULL DEFAULT 0,
    run_id       TEXT,
    created_at   REAL NOT NULL,
    updated_at   REAL NOT NULL
) STRICT;
CREATE INDEX documents_of_owner ON documents (owner, created_at);
CREATE TABLE document_labels (
    document     INTEGER NOT NULL,
    label        TEXT NOT NULL,
    PRIMARY KEY (document, label)
) STRICT;
CREATE TABLE passages (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    document     INTEGER NOT NULL,
    ordinal      INTEGER NOT NULL,
    begins_at    INTEGER NOT NULL,
    ends_at      INTEGER NOT NULL,
    headings     TEXT NOT NULL,
    text         TEXT NOT NULL,
    hash         TEXT NOT NULL
) STRICT;
CREATE INDEX passages_of_document ON passages (document, ordinal);
CREATE INDEX passages_by_hash ON passages (hash);
CREATE TABLE passage_vectors (
    embedder     TEXT NOT NULL,
    hash         TEXT NOT NULL,
    vector       BLOB NOT NULL,
    PRIMARY KEY (embedder, hash)
) STRICT;
CREATE VIRTUAL TABLE passage_words USING fts5 (
    terms, tokenize = 'unicode61 remove_diacritics 0'
);
CREATE TABLE facts (
    id           TEXT NOT NULL PRIMARY KEY,
    owner        TEXT NOT NULL,
    scope        TEXT NOT NULL,
    subject      TEXT NOT NULL,
    kind         TEXT NOT NULL,
    text         TEXT NOT NULL,
    source_run   TEXT,
    source_seq   INTEGER NOT NULL,
    source_quote TEXT NOT NULL,
    said_by      TEXT NOT NULL,
    untrusted    TEXT NOT NULL,
    status       TEXT NOT NULL,
    valid_from   REAL NOT NULL,
    valid_to     REAL,
    created_at   REAL NOT NULL,
    expires_at   REAL,
    reviewed_by  TEXT NOT NULL,
    supersedes   TEXT,
    pinned       INTEGER NOT NULL,
    key          BLOB
) STRICT;
CREATE INDEX facts_of_owner ON facts (owner, status, created_at);
CREATE TABLE memory_uses (
    item         TEXT NOT NULL,
    run_id       TEXT NOT NULL,
    used_at      REAL NOT NULL,
    cited        INTEGER NOT NULL,
    PRIMARY KEY (item, run_id)
) STRICT;
CREATE INDEX memory_uses_of_run ON memory_uses (run_id);
