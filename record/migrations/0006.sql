-- What people have marked the experiment with: a JSON object of strings.
ALTER TABLE experiments ADD COLUMN tags TEXT NOT NULL DEFAULT '{}';
