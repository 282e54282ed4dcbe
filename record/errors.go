package record

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// classify turns what the databases say into our errors.
func classify(err error) error {
	var file *sqlite.Error
	var server *pgconn.PgError
	var kind error
	switch {
	case err == nil, errors.Is(err, ErrUnreachable):
		return err
	case errors.As(err, &file):
		kind = ofFile(file.Code())
	case errors.As(err, &server):
		kind = ofServer(server.Code)
	case cutOff(err):
		kind = ErrUnreachable
	}
	if kind == nil {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

func ofFile(code int) error {
	switch code & 0xff {
	case codes.SQLITE_FULL:
		return ErrFull
	case codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN:
		return ErrReadOnly
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return ErrDamaged
	}
	return nil
}

// fenced is the code with which our own function refuses whoever has lost a lease.
const fenced = "PRN01"

// ofServer knows PostgreSQL's codes of what passes by itself: a server that is going
// down, coming up, full of connections or no primary, and a transaction it has ended.
func ofServer(code string) error {
	switch code {
	case "53100":
		return ErrFull
	case fenced:
		return ErrFenced
	case "25006", "25P03", "25P04", "53300", "57P01", "57P02", "57P03", "57P05", "57014":
		return ErrUnreachable
	}
	if strings.HasPrefix(code, "08") {
		return ErrUnreachable
	}
	return nil
}

// cutOff tells whether a connection could not be had or did not last. That a caller gave
// up says nothing of it.
func cutOff(err error) bool {
	var network net.Error
	var refused *pgconn.ConnectError
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &refused):
		return true
	case errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
