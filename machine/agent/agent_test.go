package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
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
	require.NoError(t, client.Cancel(t.Context(), machine.Ref{Key: key()}, intent))
	require.NoError(t, e.in.Close())
	client, _ = serve(t, directory)
	refs, err := client.List(t.Context(), key().Experiment)
	require.NoError(t, err)
	require.Len(t, refs, 1)
	cursor := machine.Cursor("")
	findings, err := client.Poll(t.Context(), []agent.Question{{Ref: refs[0], After: &cursor}, {Ref: machine.Ref{Key: trial.Key{Experiment: "nowhere0"}}}})
	require.NoError(t, err)
	require.Equal(t, &intent, findings.Findings[0].Report.Intent)
	require.True(t, findings.Findings[0].Asked && findings.Findings[0].Whole)
	require.Equal(t, machine.Absent, findings.Findings[1].Report.Phase)
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

func TestAnAgentEndsWhenItsDirectoryIsAnotherOne(t *testing.T) {
	for name, replace := range map[string]func(directory string) error{
		"gone": os.RemoveAll,
		"another": func(directory string) error {
			return os.WriteFile(filepath.Join(directory, "site"), []byte("another\n"), 0o600)
		},
	} {
		directory := filepath.Join(t.TempDir(), "ours")
		client, e := serve(t, directory)
		require.NoError(t, replace(directory), name)
		require.ErrorIs(t, client.Cancel(t.Context(), machine.Ref{Key: key()}, trial.Intent{Cause: trial.CauseUser}), agent.ErrGone)
		require.Error(t, <-e.over)
		require.NoDirExists(t, filepath.Join(directory, "runs"), "nothing is written in the place of what is away")
	}
}

func TestFaultsKeepTheirCodes(t *testing.T) {
	client, _ := serve(t, t.TempDir())
	_, _, err := client.Collect(t.Context(), machine.Ref{Key: key()}, "")
	require.NoError(t, err)
	require.NoError(t, client.Cancel(t.Context(), machine.Ref{Key: key()}, trial.Intent{Cause: trial.CauseUser}))
	_, _, err = client.Collect(t.Context(), machine.Ref{Key: key()}, "no cursor")
	require.Equal(t, machine.Invalid, machine.CodeOf(err))
	job := machine.Job{Key: key(), Workspace: machine.Workspace{Hash: "0123"}}
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
	said := "Welcome to gpu1!\nquota: 97 %\r\n" + agent.Greeting + "\n" + `{"format":2,"sha256":"00"}` + "\n"
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

// TestCodeThatIsRemovedHasNoNameAnyMore looks at a tree all the while it is removed:
// as long as it has its name it must be whole.
func TestCodeThatIsRemovedHasNoNameAnyMore(t *testing.T) {
	directory := t.TempDir()
	tree := filepath.Join(directory, "code", "0123")
	const files = 4000
	require.NoError(t, os.MkdirAll(tree, 0o755))
	for i := range files {
		require.NoError(t, os.WriteFile(filepath.Join(tree, strconv.Itoa(i)), nil, 0o644))
	}
	users := tree + ".users"
	require.NoError(t, os.Mkdir(users, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(users, key().Experiment), nil, 0o600))
	client, _ := serve(t, directory)
	done := make(chan error, 1)
	go func() { done <- client.CleanUp(t.Context(), key().Experiment) }()
	for {
		found, _ := os.ReadDir(tree)
		if _, err := os.Stat(tree); err != nil {
			break
		}
		require.Len(t, found, files)
	}
	require.NoError(t, <-done)
	left, err := os.ReadDir(filepath.Join(directory, "code"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestCodeOfAnInterruptedCleanUpGoesWithTheNextOne(t *testing.T) {
	directory := t.TempDir()
	gone := filepath.Join(directory, "code", "0123.abc.gone")
	require.NoError(t, os.MkdirAll(gone, 0o755))
	client, _ := serve(t, directory)
	require.NoError(t, client.CleanUp(t.Context(), key().Experiment))
	require.NoDirExists(t, gone)
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

func TestAnAgentOfAnotherFormatSaysSoAndEnds(t *testing.T) {
	e := start(t)
	_, err := e.in.WriteString(`{"format":1,"purpose":"serve"}` + "\n")
	require.NoError(t, err)
	require.ErrorContains(t, <-e.over, "this agent speaks format 2, not 1")
}
