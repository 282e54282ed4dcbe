-- The number of the newest migration. With SQLite it is in the file's head.
CREATE TABLE format (number BIGINT NOT NULL);
INSERT INTO format VALUES (0);

-- Who alone may do something. A fence is the number of a holder: whoever held the
-- lease before has a lower one, and writes nothing more.
CREATE TABLE leases (
    name      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder    TEXT   NOT NULL,
    directory TEXT   NOT NULL,
    seat      TEXT   NOT NULL, -- the directory of the first holder
    fence     BIGINT NOT NULL,
    until     TIMESTAMPTZ NOT NULL
);

-- What the next host needs of the last one's disk: files of its state directory by their
-- paths, code as it is and all else sealed.
CREATE TABLE parcels (
    experiment TEXT COLLATE "C" NOT NULL,
    path       TEXT COLLATE "C" NOT NULL,
    content    BYTEA NOT NULL,
    PRIMARY KEY (experiment, path)
);

CREATE FUNCTION require_lease(of TEXT, number BIGINT) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM leases WHERE name = of AND fence = number) THEN
        RAISE EXCEPTION USING ERRCODE = 'PRN01', MESSAGE = 'somebody else holds the lease';
    END IF;
END
$$;

-- A parameter's value in the order of its kind: numbers before texts. NULL where a
-- trial has none, or its parameters are nothing that can be read.
CREATE FUNCTION parameter_key(parameters TEXT, plain TEXT[], nested TEXT[]) RETURNS JSONB
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    found JSONB;
BEGIN
    found := coalesce(nullif(parameters::jsonb #> plain, 'null'), nullif(parameters::jsonb #> nested, 'null'));
    RETURN CASE jsonb_typeof(found)
        WHEN 'number' THEN jsonb_build_array(0, found)
        WHEN 'boolean' THEN jsonb_build_array(0, found::int)
        WHEN 'string' THEN jsonb_build_array(1, found)
        WHEN 'object' THEN jsonb_build_array(1, found::text)
        WHEN 'array' THEN jsonb_build_array(1, found::text)
    END;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END
$$;
