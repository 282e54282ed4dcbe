// Package postgreslab is a laboratory for tests that need PostgreSQL: Debian's
// real server on a loopback port of its own, with data of its own, until it is
// closed or the test's process ends, also by a kill.
package postgreslab

import (
	"bytes"
	"errors"
	"fmt"
	chance "math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// User owns every database that a Server is asked for, and has to say Password.
// Whoever calls himself postgres may do everything, and says none.
const (
	User     = "perennial"
	Password = "correct-horse-battery"
)

// patience is how long a server may take to come up on a busy machine.
const patience = 60 * time.Second

// Server is one PostgreSQL.
type Server struct {
	base, data, binaries, port string

	as     *syscall.Credential // nil is whoever runs the test
	mutex  sync.Mutex
	ended  chan struct{} // closed when the server that runs has ended
	number int           // of the last schema
}

// New starts a server that ends with the test. Where PostgreSQL is missing the test
// is left out; in CI it fails.
func New(t testing.TB) *Server {
	t.Helper()
	if missing := Missing(); missing != "" {
		machine.Lacks(t, "%s", missing)
	}
	server, err := Start()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}

// Missing says what this machine lacks for a server, empty if nothing.
func Missing() string {
	if binaries() == "" {
		return "PostgreSQL is missing: apt-get install postgresql"
	}
	return ""
}

// Start starts a server for whoever has no test to end it with.
func Start() (*Server, error) {
	base, err := os.MkdirTemp(ground(), "postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{base: base, data: filepath.Join(base, "data"), binaries: binaries()}
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(base))
	}
	if err := s.Restart(); err != nil {
		return nil, err
	}
	_, err = s.psql("postgres", fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", User, Password))
	return s, err
}

// ground is where others than root may enter: some machines' /tmp is root's alone.
func ground() string {
	if info, err := os.Stat(os.TempDir()); err == nil && info.Mode()&0o001 == 0 {
		return "/var/tmp"
	}
	return os.TempDir()
}

// hba lets the superuser in as he is, and everybody else by password.
const hba = "local all postgres trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"

func (s *Server) initialise() error {
	if err := s.choosePort(); err != nil {
		return err
	}
	if err := s.giveAway(); err != nil {
		return err
	}
	out, err := s.run("initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return os.WriteFile(filepath.Join(s.data, "pg_hba.conf"), []byte(hba), 0o600)
}

// given are the ports that this process has given to servers.
var given sync.Map

// choosePort takes one that nobody listens on, nor will by chance before the server
// does: it lies below those that the kernel gives to whoever asks for any.
func (s *Server) choosePort() error {
	const lowest, many = 8000, 8000
	for range 1000 {
		port := strconv.Itoa(lowest + chance.IntN(many))
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			s.port = port
			return listener.Close()
		}
	}
	return errors.New("no port is free")
}

// giveAway gives the directory to user postgres where the test is root, for
// PostgreSQL refuses root.
func (s *Server) giveAway() error {
	if os.Getuid() != 0 {
		return nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	var uid, gid uint32
	if _, err := fmt.Sscan(found.Uid+" "+found.Gid, &uid, &gid); err != nil {
		return err
	}
	s.as = &syscall.Credential{Uid: uid, Gid: gid}
	return os.Chown(s.base, int(uid), int(gid))
}

func (s *Server) run(name string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(s.binaries, name), args...)
	command.Dir, command.SysProcAttr = s.base, &syscall.SysProcAttr{Credential: s.as}
	return command
}

// Restart starts a server that was stopped, or the first time, and waits until it answers.
func (s *Server) Restart() error {
	started := make(chan error)
	go s.serve(started)
	if err := <-started; err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		out, err := s.psql("postgres", "SELECT 1")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.base, "log"))
			return fmt.Errorf("PostgreSQL does not come up: %s\n%s", out, log)
		}
	}
}

// serve runs the server from a thread that lives as long: when that ends, so does
// the server.
func (s *Server) serve(started chan<- error) {
	runtime.LockOSThread()
	log, err := os.OpenFile(filepath.Join(s.base, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		started <- err
		return
	}
	defer log.Close()
	server := s.run("postgres", "-D", s.data, "-p", s.port, "-k", s.base, "-c", "listen_addresses=127.0.0.1",
		"-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB") // a test needs no more, and disks may be small
	server.Stdout, server.Stderr, server.SysProcAttr.Pdeathsig = log, log, syscall.SIGQUIT
	err = server.Start()
	ended := make(chan struct{})
	s.mutex.Lock()
	s.ended = ended
	s.mutex.Unlock()
	started <- err
	if err == nil {
		_ = server.Wait()
	}
	close(ended)
}

// Crash ends the server as a power cut would: nothing is finished, nobody is told.
func (s *Server) Crash() error { return s.stop("immediate") }

func (s *Server) stop(mode string) error {
	out, err := s.run("pg_ctl", "stop", "-D", s.data, "-m", mode).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_ctl: %w: %s", err, out)
	}
	s.mutex.Lock()
	ended := s.ended
	s.mutex.Unlock()
	<-ended
	return nil
}

// Close ends the server, if it runs, and removes its data.
func (s *Server) Close() {
	_ = s.stop("fast")
	_ = os.RemoveAll(s.base)
}

// Address is host and port of the server.
func (s *Server) Address() string { return "127.0.0.1:" + s.port }

// Socket is the directory of the server's socket, and the port in its name. Whoever calls
// himself postgres gets in there without a password.
func (s *Server) Socket() (directory, port string) { return s.base, s.port }

// Programs is the directory of psql and createdb.
func (s *Server) Programs() string { return s.binaries }

// Create makes a database of that name, of User.
func (s *Server) Create(database string) error {
	out, err := s.psql("postgres", fmt.Sprintf("CREATE DATABASE %q OWNER %s", database, User))
	if err != nil {
		return fmt.Errorf("psql: %w: %s", err, out)
	}
	return nil
}

// URL is how User reaches a database, password and all.
func (s *Server) URL(database string) string {
	address := url.URL{Scheme: "postgresql", User: url.UserPassword(User, Password), Host: s.Address(), Path: "/" + database}
	return address.String()
}

// Schema returns the address of an empty schema of its own in a database.
func (s *Server) Schema(database string) (string, error) {
	s.mutex.Lock()
	s.number++
	name := fmt.Sprint("schema", s.number)
	s.mutex.Unlock()
	if out, err := s.psql(database, fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", name, User)); err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, out)
	}
	return s.URL(database) + "?search_path=" + name, nil
}

// Ask returns what a query of the superuser answers, a line for each row.
func (s *Server) Ask(t testing.TB, database, query string) string {
	t.Helper()
	out, err := s.psql(database, query)
	require.NoError(t, err, string(out))
	return string(bytes.TrimSpace(out))
}

func (s *Server) psql(database, query string) ([]byte, error) {
	return s.run("psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", s.port, "-U", "postgres", "-d", database, "-c", query).CombinedOutput()
}

// Dump is all of a database as pg_dump writes it.
func (s *Server) Dump(t testing.TB, database string) string {
	t.Helper()
	out, err := s.run("pg_dump", "-h", "127.0.0.1", "-p", s.port, "-U", "postgres", database).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// binaries is where Debian has the newest PostgreSQL's programs, else where PATH
// has them; empty where they are missing.
func binaries() string {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1])
	}
	if found, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(found)
	}
	return ""
}
