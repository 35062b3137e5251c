-- Without it, each passage that is removed or added would have all vectors scanned.
CREATE INDEX passage_vectors_by_hash ON passage_vectors (hash);
