ALTER TABLE runs ADD COLUMN wake_at REAL;
ALTER TABLE runs ADD COLUMN parent INTEGER;
CREATE INDEX runs_to_wake ON runs (wake_at) WHERE status = 'waiting';
CREATE INDEX runs_below ON runs (parent) WHERE parent IS NOT NULL;
CREATE VIEW workflow_checkpoints AS
    SELECT runs.run_id, events.lane, body ->> 'step_id' AS step_id, body ->> 'attempt' AS attempt,
           body ->> 'status' AS status, body -> 'outputs' AS outputs, nullif(body ->> 'error', '') AS error,
           events.seq, events.ts AS created_at
    FROM (SELECT run, lane, seq, ts, CAST(payload AS TEXT) AS body FROM events WHERE kind = 'step_finished')
         AS events JOIN runs ON runs.number = events.run;
CREATE VIEW data_lineage AS
    SELECT runs.run_id, events.lane, body ->> 'step_id' AS step_id, body ->> 'attempt' AS attempt,
           iif(events.kind = 'step_started', 'input', 'output') AS fed, target.key AS name, source.value AS source,
           events.ts AS created_at
    FROM (SELECT run, lane, kind, ts, CAST(payload AS TEXT) AS body FROM events
          WHERE kind IN ('step_started', 'step_finished')) AS events
         JOIN runs ON runs.number = events.run,
         json_each(body -> 'reads') AS target, json_each(target.value) AS source;
