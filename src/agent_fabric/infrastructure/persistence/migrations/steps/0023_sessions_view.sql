CREATE VIEW sessions AS
    SELECT id, owner, title, created_at, updated_at FROM chat_sessions;
