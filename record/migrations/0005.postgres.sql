-- Who has a share again when it comes back, whoever works on that meanwhile, and when it
-- last asked for it.
ALTER TABLE leases ADD COLUMN home TEXT NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN wanted TIMESTAMPTZ;
UPDATE leases SET home = directory;
