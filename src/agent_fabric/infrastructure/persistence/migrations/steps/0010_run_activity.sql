CREATE VIRTUAL TABLE run_activity USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TABLE run_activity_progress (
    position   INTEGER NOT NULL
) STRICT;
INSERT INTO run_activity_progress (position) VALUES (0);
