-- The number of the newest migration. With SQLite it is in the file's head.
CREATE TABLE format (number BIGINT NOT NULL);
INSERT INTO format VALUES (0);

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
