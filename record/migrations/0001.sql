-- Times and durations are whole nanoseconds, times since 1970 in UTC, 0 for none.

CREATE TABLE identity (
    id TEXT NOT NULL
) STRICT;

CREATE TABLE experiments (
    id            TEXT    NOT NULL PRIMARY KEY,
    name          TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    reason_code   TEXT    NOT NULL DEFAULT '',
    reason_text   TEXT    NOT NULL DEFAULT '',
    paused        INTEGER NOT NULL DEFAULT 0,
    ending        INTEGER NOT NULL DEFAULT 0,
    exhausted     INTEGER NOT NULL DEFAULT 0,
    minimize      INTEGER NOT NULL,
    concurrency   INTEGER NOT NULL,
    max_trials    INTEGER NOT NULL,
    max_duration  INTEGER NOT NULL,
    driven        INTEGER NOT NULL DEFAULT 0,
    created       INTEGER NOT NULL,
    ended         INTEGER NOT NULL DEFAULT 0,
    asked         INTEGER NOT NULL DEFAULT 0,
    last_event    INTEGER NOT NULL DEFAULT 0,
    cursor        INTEGER NOT NULL DEFAULT 0,
    space_event   INTEGER NOT NULL DEFAULT 0,
    counts        TEXT    NOT NULL DEFAULT '{}',
    best_sequence INTEGER,
    best_value    REAL
) STRICT;

-- Apart from experiments, whose rows change with every event and so stay small.
CREATE TABLE configurations (
    experiment TEXT NOT NULL PRIMARY KEY,
    config     TEXT NOT NULL,
    space      TEXT NOT NULL,
    workspaces TEXT NOT NULL DEFAULT '[]'
) STRICT;

-- Intermediates are rows of metrics, and what was asked is in trials: both have
-- their numbers from the same sequence.
CREATE TABLE events (
    experiment TEXT    NOT NULL,
    number     INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    sequence   INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    time       INTEGER NOT NULL,
    command    TEXT,
    data       TEXT,
    PRIMARY KEY (experiment, number)
) STRICT;

CREATE UNIQUE INDEX events_command ON events (experiment, command) WHERE command IS NOT NULL;

CREATE TABLE trials (
    experiment   TEXT    NOT NULL,
    sequence     INTEGER NOT NULL,
    state        TEXT    NOT NULL,
    settled      INTEGER NOT NULL DEFAULT 0,
    reason_code  TEXT    NOT NULL DEFAULT '',
    reason_text  TEXT    NOT NULL DEFAULT '',
    parameters   TEXT    NOT NULL,
    parameter_id TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    event        INTEGER NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    asked        INTEGER NOT NULL,
    started      INTEGER NOT NULL DEFAULT 0,
    ended        INTEGER NOT NULL DEFAULT 0,
    value        REAL,
    final        TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (experiment, sequence)
) STRICT;

CREATE INDEX trials_unsettled ON trials (experiment, sequence) WHERE settled = 0;

CREATE TABLE attempts (
    experiment  TEXT    NOT NULL,
    sequence    INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    platform    TEXT    NOT NULL,
    handle      TEXT,
    phase       TEXT    NOT NULL DEFAULT '',
    reason_code TEXT    NOT NULL DEFAULT '',
    reason_text TEXT    NOT NULL DEFAULT '',
    exit        TEXT,
    intent      TEXT,
    output      TEXT    NOT NULL DEFAULT '',
    cursor      TEXT    NOT NULL DEFAULT '',
    drained     INTEGER NOT NULL DEFAULT 0,
    metrics     INTEGER NOT NULL DEFAULT 0,
    fresh       INTEGER NOT NULL DEFAULT 0, -- metrics that no earlier attempt had brought
    last_step   INTEGER NOT NULL DEFAULT -1,
    fed_before  INTEGER NOT NULL DEFAULT -1, -- highest step algorithms saw of earlier attempts
    outcome     TEXT    NOT NULL DEFAULT '',
    submitted   INTEGER NOT NULL,
    started     INTEGER NOT NULL DEFAULT 0,
    ended       INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (experiment, sequence, attempt)
) STRICT;

CREATE INDEX attempts_open ON attempts (platform) WHERE outcome = '' OR drained = 0;

CREATE TABLE metrics (
    experiment TEXT    NOT NULL,
    sequence   INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    step       INTEGER NOT NULL,
    value      TEXT    NOT NULL,
    time       INTEGER NOT NULL,
    event      INTEGER,
    PRIMARY KEY (experiment, sequence, attempt, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX metrics_event ON metrics (experiment, event) WHERE event IS NOT NULL;
CREATE INDEX metrics_final ON metrics (experiment, sequence, attempt, number) WHERE kind = 'FINAL';

CREATE TABLE decisions (
    experiment  TEXT    NOT NULL,
    sequence    INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    cause       TEXT    NOT NULL,
    reason_code TEXT    NOT NULL,
    reason_text TEXT    NOT NULL,
    outcome     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (experiment, sequence, attempt)
) STRICT;

CREATE INDEX decisions_open ON decisions (experiment, sequence, attempt) WHERE outcome = '';
