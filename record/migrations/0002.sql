-- Numbers of trials, below asked, that the record has forgotten and that left no
-- run: they are asked before new ones. A JSON array.
ALTER TABLE experiments ADD COLUMN vacant TEXT NOT NULL DEFAULT '[]';
