package embedded

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/schema/sqlite"
	"golang.org/x/mod/semver"
	"google.golang.org/protobuf/types/known/durationpb"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// DamagedError says that SQLite cannot read the Temporal database.
type DamagedError struct {
	Path string
	Err  error
}

// Error says what to do about it.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("the Temporal database %s is damaged (%v): move it and its -wal and -shm files away "+
		"and run the command again; experiments continue from the record", e.Path, e.Err)
}

// Unwrap returns what SQLite said.
func (e *DamagedError) Unwrap() error { return e.Err }

// NewerError says that a newer Temporal server wrote the database.
type NewerError struct {
	Path, Wrote, Have string
}

// Error says what to do about it.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the Temporal database %s was written by Temporal server %s, this program embeds %s: "+
		"use the newer starter again; or move the file away, experiments continue from the record", e.Path, e.Wrote, e.Have)
}

// prepareDatabase leaves a readable database with a complete schema, marked
// with this server's version before this server writes to it.
func prepareDatabase(ctx context.Context, directory string) error {
	path := databasePath(directory)
	if err := refuseNewer(path); err != nil {
		return err
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = createDatabase(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("temporal database: %w", err)
	}
	if err := checkDatabase(ctx, path); err != nil {
		return whyUnreadable(path, err)
	}
	if err := migrate(ctx, path); err != nil {
		return fmt.Errorf("temporal database %s: %w", path, err)
	}
	return writeVersion(path)
}

// errCheck marks what SQLite found by reading a whole file.
var errCheck = errors.New("integrity check")

// whyUnreadable tells a damaged file from one that cannot be read now, on a full
// disk say: moving that one away would help nobody.
func whyUnreadable(path string, err error) error {
	var answer *driver.Error
	damage := errors.Is(err, errCheck)
	if errors.As(err, &answer) {
		const primary = 0xff
		code := answer.Code() & primary
		damage = code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_ERROR
	}
	if damage {
		return &DamagedError{Path: path, Err: err}
	}
	return fmt.Errorf("temporal database %s: %w", path, err)
}

// createDatabase builds the schema under another name, so that a crash never
// leaves half of it under the name that counts.
func createDatabase(ctx context.Context, path string) error {
	unfinished := path + ".new"
	if err := removeAll(unfinished, unfinished+"-journal", path+"-wal", path+"-shm"); err != nil {
		return err
	}
	if err := writeSchema(ctx, unfinished); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// writeSchema creates the file with mode 0600, which SQLite passes on to the
// -wal and -shm files beside it.
func writeSchema(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer db.Close()
	return setUpSchema(ctx, db)
}

func setUpSchema(ctx context.Context, db *sql.DB) error {
	transaction, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	if err := sqlite.SetupSchemaOnDB(schemaWriter{transaction: transaction}); err != nil {
		return err
	}
	if err := dropIdleIndexes(ctx, transaction); err != nil {
		return err
	}
	return transaction.Commit()
}

// usefulIndexes are those of Temporal's indexes on visibility that find a few
// workflows among very many, as the Web UI and people ask for them; by_keyword_01
// is that of ExperimentId, see columns.
var usefulIndexes = []string{"default_idx", "by_workflow_id", "by_workflow_type", "by_status", "by_parent_workflow_id", "by_keyword_01"}

// dropIdleIndexes removes the others on visibility, more than fifty, all of which
// would be written each of the three times that a workflow is. What they served is
// found without them, by a look at every workflow.
func dropIdleIndexes(ctx context.Context, transaction *sql.Tx) error {
	all, err := column(ctx, transaction, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql IS NOT NULL")
	if err != nil {
		return err
	}
	for _, index := range all {
		if slices.Contains(usefulIndexes, index) {
			continue
		}
		if _, err := transaction.ExecContext(ctx, fmt.Sprintf("DROP INDEX %q", index)); err != nil {
			return err
		}
	}
	return nil
}

// schemaWriter is as much of Temporal's AdminDB as setting up a schema uses.
// Temporal's own never closes its handle.
type schemaWriter struct {
	sqlplugin.AdminDB
	transaction *sql.Tx
}

// Exec implements sqlplugin.AdminCRUD.
func (w schemaWriter) Exec(statement string, arguments ...any) error {
	_, err := w.transaction.Exec(statement, arguments...)
	return err
}

func openDatabase(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+uriPath(path)+"?mode=rw&_pragma=busy_timeout(5000)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// quickCheckLimit is the file size in bytes up to which the whole file is read
// at start; beyond it that would cost seconds.
const quickCheckLimit = 16 << 20

func checkDatabase(ctx context.Context, path string) error {
	db, err := openDatabase(path)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, table := range []string{"namespaces", "shards", "executions", "history_node", "executions_visibility"} {
		if err := readTable(ctx, db, table); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > quickCheckLimit {
		return err
	}
	return quickCheck(ctx, db)
}

func readTable(ctx context.Context, db *sql.DB, table string) error {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 1")
	if err != nil {
		return err
	}
	defer rows.Close()
	rows.Next()
	return rows.Err()
}

func quickCheck(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errCheck, verdict)
	}
	return nil
}

// version is the side file that says which server last wrote the database.
// SQLite is the one store whose schema version Temporal does not check.
type version struct {
	Format int    `json:"format"`
	Server string `json:"server"`
	Schema string `json:"schema"`
}

const versionFormat = 1

func versionPath(database string) string { return database + ".version" }

func refuseNewer(database string) error {
	if _, err := os.Stat(database); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	content, err := os.ReadFile(versionPath(database))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("version of the Temporal database: %w", err)
	}
	var wrote version
	if err := json.Unmarshal(content, &wrote); err != nil {
		return fmt.Errorf("version of the Temporal database: %s: %w", versionPath(database), err)
	}
	if wrote.Format > versionFormat || semver.Compare("v"+wrote.Server, "v"+headers.ServerVersion) > 0 {
		return &NewerError{Path: database, Wrote: wrote.Server, Have: headers.ServerVersion}
	}
	return nil
}

func writeVersion(database string) error {
	content, err := json.Marshal(version{versionFormat, headers.ServerVersion, sqlite.Version})
	if err != nil {
		return err
	}
	path := versionPath(database)
	if err := os.WriteFile(path+".new", append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("version of the Temporal database: %w", err)
	}
	if err := syncFile(path + ".new"); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("version of the Temporal database: %w", err)
	}
	return syncDirectory(filepath.Dir(path))
}

// columns are visibility's columns of our search attributes.
var columns = []struct {
	name, attribute string
	kind            enumspb.IndexedValueType
}{
	{"Keyword01", "ExperimentId", enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{"Keyword02", "Platform", enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{"Keyword03", "TrialStatus", enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	{"Double01", "BestMetric", enumspb.INDEXED_VALUE_TYPE_DOUBLE},
	{"Double02", "FinalMetric", enumspb.INDEXED_VALUE_TYPE_DOUBLE},
	{"Int01", "TrialIndex", enumspb.INDEXED_VALUE_TYPE_INT},
}

// SearchAttributes are the custom search attributes of the namespace.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	attributes := map[string]enumspb.IndexedValueType{}
	for _, column := range columns {
		attributes[column.attribute] = column.kind
	}
	return attributes
}

// aliases are the search attributes by their columns, which Temporal would choose by
// chance. A namespace that exists keeps the ones it has.
func aliases() map[string]string {
	attributes := map[string]string{}
	for _, column := range columns {
		attributes[column.name] = column.attribute
	}
	return attributes
}

func createNamespace(options Options) error {
	namespace, err := sqlite.NewNamespaceConfig(clusterName, options.Namespace, false, SearchAttributes())
	if err != nil {
		return fmt.Errorf("namespace %s: %w", options.Namespace, err)
	}
	namespace.Detail.Config.CustomSearchAttributeAliases = aliases()
	namespace.Detail.Config.Retention = durationpb.New(options.Retention)
	if err := sqlite.CreateNamespaces(sqlConfig(options.Directory), namespace); err != nil {
		return fmt.Errorf("namespace %s: %w", options.Namespace, err)
	}
	return nil
}
