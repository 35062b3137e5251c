CREATE TABLE run_vectors (
    run        INTEGER NOT NULL,
    embedder   TEXT NOT NULL,
    vector     BLOB NOT NULL,
    PRIMARY KEY (embedder, run)
) STRICT;
CREATE VIRTUAL TABLE run_words USING fts5 (
    text, content = '', columnsize = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
