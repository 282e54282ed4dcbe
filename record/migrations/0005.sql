-- The share of the experiments that one belongs to; each has one worker.
ALTER TABLE experiments ADD COLUMN share TEXT NOT NULL DEFAULT '';
