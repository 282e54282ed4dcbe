-- Who has a share again when it comes back, whoever works on that meanwhile, and when it
-- last asked for it.
ALTER TABLE leases ADD COLUMN home TEXT NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN wanted TIMESTAMPTZ;
-- When that one was last heard of.
ALTER TABLE leases ADD COLUMN seen TIMESTAMPTZ;
UPDATE leases SET home = directory, seen = until;
