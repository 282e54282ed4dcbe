-- The state directory under whose id is queued what only one host can do; empty where
-- that is the directory of the file, or where nobody has led yet.
ALTER TABLE identity ADD COLUMN seat TEXT NOT NULL DEFAULT '';
