UPDATE identity SET seat = coalesce((SELECT seat FROM leases WHERE name = 'record'), '');
ALTER TABLE leases DROP COLUMN seat;
