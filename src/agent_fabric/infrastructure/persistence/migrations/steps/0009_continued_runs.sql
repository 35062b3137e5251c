ALTER TABLE runs ADD COLUMN continues INTEGER;
CREATE INDEX runs_continuing ON runs (continues) WHERE continues IS NOT NULL;
