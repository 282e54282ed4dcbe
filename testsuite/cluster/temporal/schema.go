package main

import (
	"errors"
	"fmt"
	"io"
	"path"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/schema"
	v12 "go.temporal.io/server/schema/postgresql/v12"
)

// The names of the databases, and of their schemas below schema/postgresql/v12.
const (
	mainDatabase       = "temporal"
	visibilityDatabase = "visibility"
)

// prepare gives both databases their schema unless they have one.
func prepare(address string, logger log.Logger) error {
	return errors.Join(
		prepareDatabase(address, mainDatabase, v12.Version, logger),
		prepareDatabase(address, visibilityDatabase, v12.VisibilityVersion, logger),
	)
}

func prepareDatabase(address, name, version string, logger log.Logger) error {
	db, err := sql.NewSQLAdminDB(sqlplugin.DbKindUnknown, sqlConfig(address, name), resolver.NewNoopResolver(), logger, metrics.NoopMetricsHandler)
	if err != nil {
		return fmt.Errorf("database %s: %w", name, err)
	}
	defer db.Close()
	// The version is written last: a schema that was cut short has none.
	if _, err := db.ReadSchemaVersion(name); err == nil {
		return nil
	}
	statements, err := statementsOf(name)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err := db.Exec(statement); err != nil {
			return fmt.Errorf("schema of %s: %w", name, err)
		}
	}
	return errors.Join(db.CreateSchemaVersionTables(), db.UpdateSchemaVersion(name, version, version))
}

func statementsOf(name string) ([]string, error) {
	file, err := schema.Assets().Open(path.Join("postgresql", "v12", name, "schema.sql"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return persistence.LoadAndSplitQueryFromReaders([]io.Reader{file})
}
