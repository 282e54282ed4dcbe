-- Who works on the record, or waits to, so that all who share it can see one another.
CREATE TABLE workers (
    place     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    about     TEXT   NOT NULL, -- a Presence, in JSON
    waits_for TEXT   NOT NULL, -- the holder of the lease it waits for; empty where it has that itself
    heard     TIMESTAMPTZ NOT NULL
);

-- When a parcel was kept: one that no experiment was made of goes in the end.
ALTER TABLE parcels ADD COLUMN kept BIGINT NOT NULL DEFAULT 0;
