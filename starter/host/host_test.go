package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/embedded"
	"github.com/perennial-ml/perennial/record"
)

// These variables say what this test binary does when it is run as a starter.
const (
	behaviour   = "PERENNIAL_TEST_BEHAVIOUR"
	versionName = "PERENNIAL_TEST_VERSION"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := serveAsTold(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveAsTold() error {
	dir, err := Open(os.Getenv("PERENNIAL_HOME"))
	if err != nil {
		return err
	}
	config := Config{Dir: dir, Version: os.Getenv(versionName), Service: waitForTheEnd, Log: os.Stderr}
	switch os.Getenv(behaviour) {
	case "broken":
		config.Engine = func(context.Context) (Engine, error) { return nil, errors.New("the disk is full of poetry") }
	case "stubborn":
		config.Engine, config.Service = listen, func(context.Context, Running) error { select {} }
	case "embedded":
	default:
		config.Engine = listen
	}
	return Serve(context.Background(), config)
}

func waitForTheEnd(ctx context.Context, _ Running) error {
	<-ctx.Done()
	return ctx.Err()
}

// listener is an engine that accepts connections and nothing else.
type listener struct{ net.Listener }

func listen(context.Context) (Engine, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return listener{l}, err
}

func (l listener) Client() client.Options {
	return client.Options{HostPort: l.Addr().String(), Namespace: "test"}
}
func (l listener) WebUI() string { return "http://" + l.Addr().String() }
func (l listener) Stop() error   { return l.Close() }

// starter runs this test binary as a starter of the version.
func starter(t *testing.T, version, as string) Starter {
	t.Setenv(versionName, version)
	t.Setenv(behaviour, as)
	return Starter{Path: os.Args[0], Version: version}
}

func ensure(t *testing.T, dir Dir, s Starter) Info {
	info, err := Ensure(t.Context(), dir, s)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(info.PID, syscall.SIGKILL) })
	return info
}

func Test_ensure_starts_a_host_and_then_finds_it(t *testing.T) {
	dir := opened(t)
	s := starter(t, "v1.0.0", "")
	first := ensure(t, dir, s)
	require.True(t, first.Ready())
	require.Equal(t, "v1.0.0", first.Version)
	require.NotEqual(t, os.Getpid(), first.PID)
	require.Equal(t, first, ensure(t, dir, s))
}

func Test_a_host_is_in_a_session_of_its_own(t *testing.T) {
	info := ensure(t, opened(t), starter(t, "v1.0.0", ""))
	group, err := syscall.Getpgid(info.PID)
	require.NoError(t, err)
	require.Equal(t, info.PID, group, "Ctrl-C and a closed terminal must not reach it")
}

func Test_all_who_race_for_one_directory_get_one_host(t *testing.T) {
	dir := opened(t)
	s := starter(t, "v1.0.0", "")
	nonces := make(chan string, 5)
	var all sync.WaitGroup
	for range cap(nonces) {
		all.Go(func() {
			if info, err := Ensure(t.Context(), dir, s); err == nil {
				nonces <- info.Nonce
			}
		})
	}
	all.Wait()
	require.Len(t, nonces, cap(nonces))
	first := ensure(t, dir, s).Nonce
	for range cap(nonces) {
		require.Equal(t, first, <-nonces)
	}
}

func Test_after_kill_9_of_the_host_the_next_ensure_starts_another(t *testing.T) {
	dir := opened(t)
	s := starter(t, "v1.0.0", "")
	dead := ensure(t, dir, s)
	require.NoError(t, syscall.Kill(dead.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		stale, alive, err := Find(dir)
		return err == nil && !alive && stale.Nonce == dead.Nonce
	}, 10*time.Second, time.Millisecond, "the lock file is stale, the lock is gone")
	require.NotEqual(t, dead.Nonce, ensure(t, dir, s).Nonce)
}

func Test_a_host_that_dies_while_it_starts_shows_the_end_of_its_log(t *testing.T) {
	dir := opened(t)
	require.NoError(t, os.WriteFile(dir.LogFile(), []byte("what was long ago\n"), 0o600))
	_, err := Ensure(t.Context(), dir, starter(t, "v1.0.0", "broken"))
	require.ErrorContains(t, err, "the host ended while it started")
	require.ErrorContains(t, err, "the disk is full of poetry")
	require.ErrorContains(t, err, dir.LogFile())
	require.NotContains(t, err.Error(), "long ago")
}

func Test_an_older_host_hands_over_and_the_user_is_told(t *testing.T) {
	dir := opened(t)
	older := ensure(t, dir, starter(t, "v1.0.0", ""))
	s := starter(t, "v1.1.0", "")
	var said []string
	s.Say = func(line string) { said = append(said, line) }
	newer := ensure(t, dir, s)
	require.NotEqual(t, older.Nonce, newer.Nonce)
	require.Equal(t, "v1.1.0", newer.Version)
	require.Contains(t, strings.Join(said, "\n"), "a host of version v1.0.0 is running: asking it to hand over to v1.1.0")
}

func Test_a_newer_host_is_left_alone(t *testing.T) {
	dir := opened(t)
	newer := ensure(t, dir, starter(t, "v2.0.0", ""))
	_, err := Ensure(t.Context(), dir, starter(t, "v1.9.0", ""))
	var refused *NewerHostError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "update this starter")
	found, alive, err := Find(dir)
	require.NoError(t, err)
	require.True(t, alive)
	require.Equal(t, newer.Nonce, found.Nonce)
}

func Test_a_lock_file_of_a_newer_format_is_a_newer_host(t *testing.T) {
	require.Positive(t, compare(Info{Format: Format + 1, Version: "v1.0.0"}, "v1.0.0"))
	require.Zero(t, compare(Info{Format: Format, Record: record.Format, Version: "devel"}, "v1.0.0"))
}

func Test_of_versions_without_an_order_the_one_that_writes_older_records_is_older(t *testing.T) {
	require.Negative(t, compare(Info{Format: Format, Record: record.Format - 1, Version: "0bb6a12"}, "25d8dfd"))
	require.Positive(t, compare(Info{Format: Format, Record: record.Format + 1, Version: "25d8dfd"}, "0bb6a12"))
	dir := opened(t)
	require.Equal(t, record.Format, ensure(t, dir, starter(t, "0bb6a12", "")).Record)
}

func Test_stop_ends_the_host_and_is_content_without_one(t *testing.T) {
	dir := opened(t)
	require.NoError(t, Stop(t.Context(), dir))
	info := ensure(t, dir, starter(t, "v1.0.0", ""))
	require.NoError(t, Stop(t.Context(), dir))
	_, alive, err := Find(dir)
	require.NoError(t, err)
	require.False(t, alive)
	require.Eventually(t, func() bool { return syscall.Kill(info.PID, 0) != nil }, 5*time.Second, time.Millisecond)
	require.NoError(t, Stop(t.Context(), dir))
}

func Test_a_host_ends_in_five_seconds_whatever_its_workers_do(t *testing.T) {
	dir := opened(t)
	ensure(t, dir, starter(t, "v1.0.0", "stubborn"))
	begin := time.Now()
	require.NoError(t, Stop(t.Context(), dir))
	require.Less(t, time.Since(begin), 5*time.Second)
}

func Test_a_host_whose_state_directory_was_deleted_says_so_and_ends(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"deleted": os.RemoveAll,
		"replaced": func(path string) error {
			return errors.Join(os.RemoveAll(path), makeWritable(path), os.WriteFile(filepath.Join(path, "host.lock"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := opened(t)
			info := ensure(t, dir, starter(t, "v1.0.0", "embedded"))
			said, err := os.Open(dir.LogFile())
			require.NoError(t, err)
			defer said.Close()
			host, err := unix.PidfdOpen(info.PID, 0)
			require.NoError(t, err)
			defer unix.Close(host)

			require.NoError(t, replace(dir.Path()))
			ended, err := unix.Poll([]unix.PollFd{{Fd: int32(host), Events: unix.POLLIN}}, int(time.Minute.Milliseconds()))
			require.NoError(t, err)
			require.Equal(t, 1, ended, "it goes on for ever")
			log, err := io.ReadAll(said)
			require.NoError(t, err)
			require.Contains(t, string(log), "was deleted or replaced")
		})
	}
}

func Test_a_second_serve_says_who_is_the_host(t *testing.T) {
	dir := opened(t)
	info := ensure(t, dir, starter(t, "v1.0.0", ""))
	err := Serve(t.Context(), Config{Dir: dir, Version: "v1.0.0", Service: waitForTheEnd, Engine: listen})
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.ErrorContains(t, err, fmt.Sprintf("another host (process %d)", info.PID))
}

func Test_an_engine_that_fails_leaves_the_directory_free(t *testing.T) {
	dir := opened(t)
	broken := func(context.Context) (Engine, error) { return nil, errors.New("no engine") }
	require.ErrorContains(t, Serve(t.Context(), Config{Dir: dir, Service: waitForTheEnd, Engine: broken}), "no engine")
	_, alive, err := Find(dir)
	require.NoError(t, err)
	require.False(t, alive)
}

func Test_what_began_before_the_engine_ends_before_another_can_be_the_host(t *testing.T) {
	dir := opened(t)
	ended := false
	after := func() {
		_, alive, err := Find(dir)
		require.NoError(t, err)
		require.True(t, alive, "the lock is still held")
		ended = true
	}
	broken := func(context.Context) (Engine, error) { return nil, errors.New("no engine") }
	require.Error(t, Serve(t.Context(), Config{Dir: dir, After: after, Service: waitForTheEnd, Engine: broken}))
	require.True(t, ended)
}

func Test_a_service_learns_how_to_reach_the_engine_and_who_it_is(t *testing.T) {
	dir := opened(t)
	var seen Running
	service := func(_ context.Context, running Running) error { seen = running; return nil }
	require.NoError(t, Serve(t.Context(), Config{Dir: dir, Service: service, Engine: listen}))
	require.NotEmpty(t, seen.Client.HostPort)
	require.Regexp(t, `^[a-z]{8}/[a-z0-9]{16}/$`, seen.Identity())
	require.True(t, strings.HasPrefix(seen.Identity(), dir.StateID()+"/"+seen.Nonce))
}

type quiet struct{ log.Logger }

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func connect(t *testing.T, info Info) client.Client {
	options, err := info.ClientOptions()
	require.NoError(t, err)
	options.Logger = quiet{}
	c, err := client.DialContext(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func echo(_ workflow.Context, word string) (string, error) { return word, nil }

func Test_a_workflow_outlives_kill_9_of_its_host(t *testing.T) {
	dir := opened(t)
	s := starter(t, "v1.0.0", "embedded")
	first := ensure(t, dir, s)
	options := client.StartWorkflowOptions{ID: "echo", TaskQueue: "echoes"}
	_, err := connect(t, first).ExecuteWorkflow(t.Context(), options, echo, "still here")
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))

	c := connect(t, awaitOther(t, dir, s, first))
	w := worker.New(c, options.TaskQueue, worker.Options{})
	w.RegisterWorkflow(echo)
	require.NoError(t, w.Start())
	defer w.Stop()
	var answer string
	require.NoError(t, c.GetWorkflow(t.Context(), "echo", "").Get(t.Context(), &answer))
	require.Equal(t, "still here", answer)
	requirePrivate(t, dir)
}

// awaitOther ensures a host once the lock of the dead one is gone.
func awaitOther(t *testing.T, dir Dir, s Starter, dead Info) Info {
	require.Eventually(t, func() bool {
		_, alive, err := Find(dir)
		return err == nil && !alive
	}, 10*time.Second, time.Millisecond)
	info := ensure(t, dir, s)
	require.NotEqual(t, dead.Nonce, info.Nonce)
	return info
}

func requirePrivate(t *testing.T, dir Dir) {
	require.FileExists(t, filepath.Join(dir.temporal(), "temporal.db"))
	require.NoError(t, filepath.WalkDir(dir.Path(), func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}

func Test_the_embedded_host_is_closed_to_those_who_cannot_read_its_token(t *testing.T) {
	info := ensure(t, opened(t), starter(t, "v1.0.0", "embedded"))
	require.Equal(t, embedded.Namespace, info.Namespace)
	c, err := client.NewLazyClient(client.Options{HostPort: info.Address, Namespace: info.Namespace, Logger: quiet{}})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.DescribeWorkflowExecution(t.Context(), "any", "")
	require.ErrorContains(t, err, "Request unauthorized")
}

func Test_a_damaged_database_is_explained_to_whoever_started_the_host(t *testing.T) {
	dir := opened(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir.temporal(), "temporal.db"), []byte("soup"), 0o600))
	_, err := Ensure(t.Context(), dir, starter(t, "v1.0.0", "embedded"))
	require.ErrorContains(t, err, "is damaged")
	require.ErrorContains(t, err, "experiments continue from the record")
}
