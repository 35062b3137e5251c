CREATE VIRTUAL TABLE run_text USING fts5 (
    text, short, content = '', contentless_delete = 1, tokenize = 'trigram'
);
CREATE TABLE run_text_progress (
    position   INTEGER NOT NULL
) STRICT;
INSERT INTO run_text_progress (position) VALUES (0);
