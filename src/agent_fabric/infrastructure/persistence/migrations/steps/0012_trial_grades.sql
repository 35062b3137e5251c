ALTER TABLE eval_trials RENAME COLUMN verdict TO grade;
