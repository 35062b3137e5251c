CREATE TABLE response_cache (
    key          TEXT NOT NULL PRIMARY KEY,
    run_id       TEXT NOT NULL,
    created_at   REAL NOT NULL
) STRICT;
CREATE INDEX response_cache_age ON response_cache (created_at);
