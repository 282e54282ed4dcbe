package record

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// dialect is what differs between the databases that can hold a record. The SQL of
// this package is written as SQLite reads it.
type dialect struct {
	begin string // what opens a transaction that changes something
	// patience is how long a statement may take; 0 is as long as it does.
	patience  time.Duration
	translate func(query string) string
	// parameterKey orders trials by a parameter, with the arguments that parameterPaths
	// makes of two places where it may be, the names of each from the outside in.
	parameterKey   string
	parameterPaths func(plain, nested []string) []any
	platforms      string // the names that Platforms returns
}

var sqliteDialect = dialect{
	begin:     "BEGIN IMMEDIATE",
	translate: func(query string) string { return query },
	parameterKey: "CASE WHEN json_valid(parameters) THEN " +
		"coalesce(json_extract(parameters, ?), json_extract(parameters, ?)) END",
	parameterPaths: func(plain, nested []string) []any { return []any{jsonPath(plain), jsonPath(nested)} },
	platforms: `SELECT DISTINCT section.value ->> '$.platform' AS name
		FROM configurations JOIN experiments ON experiments.id = experiment, json_each(config, '$.trainingService') AS section
		WHERE %s AND section.value ->> '$.platform' IS NOT NULL ORDER BY 1`,
}

func jsonPath(names []string) string {
	path := "$"
	for _, name := range names {
		path += `."` + strings.ReplaceAll(name, `"`, "") + `"`
	}
	return path
}

var postgresDialect = dialect{
	// Whoever writes waits for whoever does already, as with SQLite: so numbers of events
	// become visible in their order. A writer that is cut off keeps nobody waiting long,
	// and what is acknowledged is durable whatever the server's default is.
	begin: `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
		SELECT set_config('idle_in_transaction_session_timeout', '5s', true),
			set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
				ELSE current_setting('synchronous_commit') END, true),
			pg_advisory_xact_lock(hashtext('perennial'), hashtext(current_schema()))`,
	patience:       30 * time.Second,
	translate:      toPostgres,
	parameterKey:   "parameter_key(parameters, ?, ?)",
	parameterPaths: func(plain, nested []string) []any { return []any{plain, nested} },
	platforms: `SELECT DISTINCT section ->> 'platform' AS name
		FROM configurations JOIN experiments ON experiments.id = experiment, json_array_elements(CASE json_typeof(config::json -> 'trainingService')
			WHEN 'array' THEN config::json -> 'trainingService'
			WHEN 'object' THEN json_build_array(config::json -> 'trainingService') ELSE '[]' END) AS section
		WHERE %s AND section ->> 'platform' IS NOT NULL ORDER BY name`,
}

// postgresWords are what PostgreSQL says otherwise.
var postgresWords = strings.NewReplacer(
	"state IN (SELECT value FROM json_each(?))", "state IN (SELECT json_array_elements_text(?::json))",
	"(SELECT value FROM json_each(?))", "(SELECT json_array_elements_text(?::json)::bigint)",
	"data ->> 'name'", "data::json ->> 'name'",
	"max(attempts, ?)", "greatest(attempts, ?)",
	" LIKE ", " ILIKE ",
)

// toPostgres numbers the places of arguments. No query has a question mark in a text.
func toPostgres(query string) string {
	var numbered strings.Builder
	for i, part := range strings.Split(postgresWords.Replace(query), "?") {
		if i > 0 {
			numbered.WriteString("$" + strconv.Itoa(i))
		}
		numbered.WriteString(part)
	}
	return numbered.String()
}

// plain is a statement that its connection prepares by itself, if at all: so it
// outlives connections, and poolers that give each transaction another one.
type plain struct {
	on interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
		QueryContext(context.Context, string, ...any) (*sql.Rows, error)
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}
	text string
}

func (p plain) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	return p.on.ExecContext(ctx, p.text, postgresArguments(args)...)
}

func (p plain) QueryContext(ctx context.Context, args ...any) (*sql.Rows, error) {
	return p.on.QueryContext(ctx, p.text, postgresArguments(args)...)
}

func (p plain) QueryRowContext(ctx context.Context, args ...any) *sql.Row {
	return p.on.QueryRowContext(ctx, p.text, postgresArguments(args)...)
}

func (p plain) Close() error { return nil }

// postgresArguments writes truth as a number, as the record has it, all else as text, and
// replaces what no text of PostgreSQL's can hold.
func postgresArguments(args []any) []any {
	for i, arg := range args {
		switch value := arg.(type) {
		case bool:
			args[i] = 0
			if value {
				args[i] = 1
			}
		case string:
			args[i] = storable(value)
		case blob:
			args[i] = []byte(value)
		case []byte:
			args[i] = storable(string(value))
		}
	}
	return args
}

// storable is the text with U+FFFD in the place of what is no UTF-8, and of zeros.
func storable(text string) string {
	if utf8.ValidString(text) && !strings.ContainsRune(text, 0) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
