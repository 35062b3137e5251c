-- A question about one instant reads a few rows, however long the history is.
CREATE INDEX firings_spans ON firings (trigger_name, due_at) WHERE until_at > due_at;
CREATE INDEX firing_processes_since ON firing_processes (since);
CREATE INDEX firing_processes_long ON firing_processes (until_at) WHERE until_at > since;
