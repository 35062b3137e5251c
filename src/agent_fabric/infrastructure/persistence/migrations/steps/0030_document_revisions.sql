-- Counts the changes of passages and vectors: what processes keep of a document is right for one revision.
ALTER TABLE documents ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
