package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/agent"
	"github.com/perennial-ml/perennial/runner/runs"
	"github.com/perennial-ml/perennial/trial"
)

// end is an agent in this process and the near end of its pipes.
type end struct {
	t    *testing.T
	in   *os.File
	out  *os.File
	over chan error
}

func start(t *testing.T) *end {
	theirs, in, err := os.Pipe()
	require.NoError(t, err)
	out, said, err := os.Pipe()
	require.NoError(t, err)
	e := &end{t: t, in: in, out: out, over: make(chan error, 1)}
	go func() {
		err := agent.Main(theirs, said)
		said.Close()
		e.over <- err
	}()
	t.Cleanup(func() { in.Close() })
	return e
}

// serve greets an agent of a directory and returns its client.
func serve(t *testing.T, directory string) (*agent.Client, *end) {
	e := start(t)
	output, welcome, err := agent.Greet(e.out, e.in, agent.Hello{Purpose: agent.Serve, Directory: directory, NNIPlatform: "remote"})
	require.NoError(t, err)
	require.Len(t, welcome.SHA256, 64)
	require.NotEmpty(t, welcome.Site)
	return agent.NewClient(output, e.in, func(trial.Key) {}), e
}

func key() trial.Key { return trial.Key{Experiment: "abcdefgh", Sequence: 3, Attempt: 1} }

func TestAnAgentEndsWithItsInputAndItsClientIsDone(t *testing.T) {
	client, e := serve(t, t.TempDir())
	facts, err := client.Facts(t.Context())
	require.NoError(t, err)
	require.Positive(t, facts.Cores)
	require.Positive(t, facts.Memory)
	require.Positive(t, facts.DiskFree)
	require.NoError(t, e.in.Close())
	require.NoError(t, <-e.over)
	<-client.Done()
	require.True(t, client.Gone())
	_, err = client.Facts(t.Context())
	require.ErrorIs(t, err, agent.ErrGone)
}

func TestTheNextAgentFindsWhatTheLastOneDid(t *testing.T) {
	directory := t.TempDir()
	client, e := serve(t, directory)
	intent := trial.Intent{Cause: trial.CauseUser}
	require.NoError(t, client.Cancel(t.Context(), runs.Ref{Key: key()}, intent))
	require.NoError(t, e.in.Close())
	client, _ = serve(t, directory)
	refs, err := client.List(t.Context(), key().Experiment)
	require.NoError(t, err)
	require.Len(t, refs, 1)
	cursor := platforms.Cursor("")
	findings, err := client.Poll(t.Context(), []agent.Question{{Ref: refs[0], After: &cursor}, {Ref: runs.Ref{Key: trial.Key{Experiment: "nowhere0"}}}})
	require.NoError(t, err)
	require.Equal(t, &intent, findings.Findings[0].Report.Intent)
	require.True(t, findings.Findings[0].Asked && findings.Findings[0].Whole)
	require.Equal(t, platforms.Absent, findings.Findings[1].Report.Phase)
	require.Positive(t, findings.Facts.Cores)
}

func TestADirectoryKeepsItsName(t *testing.T) {
	directory := t.TempDir()
	names := map[string]bool{}
	for _, place := range []string{directory, directory, t.TempDir()} {
		e := start(t)
		_, welcome, err := agent.Greet(e.out, e.in, agent.Hello{Purpose: agent.Serve, Directory: place})
		require.NoError(t, err)
		names[welcome.Site] = true
	}
	require.Len(t, names, 2)
}

func TestFaultsKeepTheirCodes(t *testing.T) {
	client, _ := serve(t, t.TempDir())
	_, _, err := client.Collect(t.Context(), runs.Ref{Key: key()}, "")
	require.NoError(t, err)
	require.NoError(t, client.Cancel(t.Context(), runs.Ref{Key: key()}, trial.Intent{Cause: trial.CauseUser}))
	_, _, err = client.Collect(t.Context(), runs.Ref{Key: key()}, "no cursor")
	require.Equal(t, platforms.Invalid, platforms.CodeOf(err))
	job := platforms.Job{Key: key(), Workspace: platforms.Workspace{Hash: "0123"}}
	_, err = client.Submit(t.Context(), agent.Submission{Job: job})
	require.ErrorIs(t, err, agent.ErrNoCode)
}

func TestADirectoryThatCannotBeUsedIsSaidInTheWelcome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for directory, words := range map[string]string{"relative": "is not absolute", file + "/below": "not a directory"} {
		e := start(t)
		_, _, err := agent.Greet(e.out, e.in, agent.Hello{Purpose: agent.Serve, Directory: directory})
		require.ErrorContains(t, err, words)
	}
}

func TestWhatALoginShellPrintsBeforeTheGreetingIsSkipped(t *testing.T) {
	said := "Welcome to gpu1!\nquota: 97 %\r\n" + agent.Greeting + "\n" + `{"format":1,"sha256":"00"}` + "\n"
	_, welcome, err := agent.Greet(strings.NewReader(said), io.Discard, agent.Hello{})
	require.NoError(t, err)
	require.Equal(t, "00", welcome.SHA256)
	_, _, err = agent.Greet(strings.NewReader("This account is currently not available.\n"), io.Discard, agent.Hello{})
	require.ErrorIs(t, err, agent.ErrGone)
	require.ErrorContains(t, err, "This account is currently not available.")
}

func TestWhoGivesUpWaitingIsNotHeldUpByAStuckConnection(t *testing.T) {
	stuck, in := io.Pipe() // nobody reads
	defer stuck.Close()
	out, said := io.Pipe()
	defer said.Close()
	output := func() *agent.Client {
		go said.Write([]byte(agent.Greeting + "\n{}\n"))
		read, _, err := agent.Greet(out, io.Discard, agent.Hello{})
		require.NoError(t, err)
		return agent.NewClient(read, in, func(trial.Key) {})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := output().Facts(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func unpack(t *testing.T, directory, hash string, archive []byte) (agent.Welcome, error) {
	e := start(t)
	output, welcome, err := agent.Greet(e.out, e.in, agent.Hello{Purpose: agent.Unpack, Directory: directory, Experiment: key().Experiment, Code: hash})
	require.NoError(t, err)
	if welcome.HasCode {
		return welcome, nil
	}
	go func() {
		e.in.Write(archive)
		e.in.Close()
	}()
	return welcome, agent.ReadFault(output)
}

func TestCodeArrivesWholeOnceAndOnlyAsWhatItsHashSays(t *testing.T) {
	code := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(code, "train.py"), []byte("print()"), 0o644))
	tree, err := codedir.Scan(code, codedir.DefaultLimits())
	require.NoError(t, err)
	hash, err := tree.Hash()
	require.NoError(t, err)
	var archive bytes.Buffer
	require.NoError(t, tree.Pack(&archive))
	directory := t.TempDir()
	_, err = unpack(t, directory, hash, archive.Bytes()[:archive.Len()/2])
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(directory, "code", hash, "train.py"))
	_, err = unpack(t, directory, hash, archive.Bytes())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(directory, "code", hash, "train.py"))
	welcome, err := unpack(t, directory, hash, nil)
	require.NoError(t, err)
	require.True(t, welcome.HasCode)
}

func TestALineThatIsNoRequestEndsTheAgent(t *testing.T) {
	_, e := serve(t, t.TempDir())
	_, err := e.in.Write([]byte("nonsense\n"))
	require.NoError(t, err)
	require.ErrorContains(t, <-e.over, "is no request")
}

func TestAHelloOfAnotherFormatIsRefused(t *testing.T) {
	e := start(t)
	go func() {
		line, _ := json.Marshal(agent.Hello{Format: 99})
		e.in.Write(append(line, '\n'))
	}()
	io.Copy(io.Discard, e.out)
	err := <-e.over
	require.Error(t, err)
	require.False(t, errors.Is(err, io.EOF))
}
