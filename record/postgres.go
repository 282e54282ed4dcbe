package record

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// connectTimeout is how long a server may take to let us in.
const connectTimeout = 5 * time.Second

// postgres is a database of PostgreSQL's, as its address has it.
type postgres struct {
	config *pgx.ConnConfig
	name   string // the address without what is secret
}

// parsePostgres reads an address. Who is not on this machine must prove who he is:
// TLS is verified wherever the address does not lead to loopback or a socket.
func parsePostgres(location string) (postgres, error) {
	address, err := url.Parse(location)
	if err != nil {
		return postgres{}, errors.New("the address of the record is no URL: postgresql://USER@HOST/DATABASE is one, where characters like / and @ in a password are written %2F and %40")
	}
	name := Redacted(location)
	config, err := pgx.ParseConfig(location)
	if err == nil && !verified(config) && address.Query().Get("sslmode") == "" && os.Getenv("PGSSLMODE") == "" {
		options := address.Query()
		options.Set("sslmode", "verify-full")
		address.RawQuery = options.Encode()
		config, err = pgx.ParseConfig(address.String())
	}
	if err != nil {
		return postgres{}, fmt.Errorf("the address of the record, %s: %w", name, err)
	}
	if !verified(config) {
		return postgres{}, fmt.Errorf("%s: its sslmode does not verify who answers: leave it out, or make it verify-full, with sslrootcert where the certificate is not a public one", name)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "perennial"
	}
	return postgres{config, name}, nil
}

// Redacted is a record's location as it may be shown to anybody: without what an
// address says beyond user, server, database and schema.
func Redacted(location string) string {
	address, err := url.Parse(location)
	if !InPostgres(location) {
		return location
	}
	if err != nil {
		return "postgresql://…"
	}
	shown := url.URL{Scheme: "postgresql", Host: address.Host, Path: address.Path}
	if address.User.Username() != "" {
		shown.User = url.User(address.User.Username())
	}
	if schema := address.Query().Get("search_path"); schema != "" {
		shown.RawQuery = url.Values{"search_path": {schema}}.Encode()
	}
	return shown.String()
}

// Secret tells whether an address has a password in it.
func Secret(location string) bool {
	address, err := url.Parse(location)
	if err != nil {
		return InPostgres(location)
	}
	_, secret := address.User.Password()
	return secret || address.Query().Has("password")
}

func verified(config *pgx.ConnConfig) bool {
	if !trusted(config.Host, config.TLSConfig) {
		return false
	}
	for _, other := range config.Fallbacks {
		if !trusted(other.Host, other.TLSConfig) {
			return false
		}
	}
	return true
}

// trusted tells whether nobody can be in a server's place.
func trusted(host string, secured *tls.Config) bool {
	address := net.ParseIP(host)
	if strings.HasPrefix(host, "/") || host == "localhost" || address != nil && address.IsLoopback() {
		return true
	}
	return secured != nil && (!secured.InsecureSkipVerify || secured.VerifyPeerCertificate != nil || secured.VerifyConnection != nil)
}

// pool makes connections, at most so many at a time.
func (p postgres) pool(most int, primary bool) *sql.DB {
	config := *p.config
	if primary && config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	db := stdlib.OpenDB(config)
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db
}

func openPostgres(location string) (*Store, error) {
	p, err := parsePostgres(location)
	if err != nil {
		return nil, err
	}
	s := &Store{dialect: postgresDialect, location: location}
	if err := s.openAt(p); err != nil {
		return nil, p.explain(err)
	}
	return s, nil
}

func (s *Store) openAt(p postgres) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	conn, err := connect(p.pool(1, true))
	if err != nil {
		return err
	}
	err = errors.Join(checkEncoding(ctx, conn.Conn), migrate(ctx, conn.Conn, postgresFormat))
	if err == nil {
		s.readFrom(p)
		err = s.readID(ctx)
	}
	if err != nil {
		return errors.Join(err, conn.close())
	}
	s.wire = s.listen(p)
	w := &writer{dialect: s.dialect, conn: conn, wake: s.watchers.wake, renew: renewal(conn.pool), announce: s.wire.say}
	w.prepared = w.unprepared()
	s.writer = startWriter(w)
	return nil
}

// renewal gets another connection in the place of one that was cut.
func renewal(pool *sql.DB) func() (*sql.Conn, error) {
	return func() (*sql.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		return pool.Conn(ctx)
	}
}

func checkEncoding(ctx context.Context, conn *sql.Conn) error {
	var encoding string
	if err := conn.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database's encoding is %s: make one whose encoding is UTF8", encoding)
	}
	return nil
}

func (s *Store) readFrom(p postgres) {
	s.read = p.pool(readers, false)
	s.prepared = newStatements(func(query string) (statement, error) { return plain{s.read, s.translate(query)}, nil }, s.patience)
}

func openPostgresReadOnly(location string) (*Store, error) {
	p, err := parsePostgres(location)
	if err != nil {
		return nil, err
	}
	s := &Store{dialect: postgresDialect, location: location}
	s.readFrom(p)
	if err := s.checkReadable(postgresFormat.of); err != nil {
		s.read.Close()
		return nil, p.explain(err)
	}
	return s, nil
}

// explain names the database. What the driver says has no password in it.
func (p postgres) explain(err error) error {
	return fmt.Errorf("the record %s: %w", p.name, classify(err))
}
