package runner_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/runner/stream"
	"github.com/perennial-ml/perennial/trial"
)

// container is a run of which one sees what a container shows of its own: its
// command's output, its exit code and its termination message.
type container struct {
	*attempt
	directory string // shared by both containers
	job       stream.Job
	command   *exec.Cmd
	stdout    *logged
}

// logged is the log of a container.
type logged struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *logged) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(text)
}

func (l *logged) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

func newContainer(t *testing.T, command string) *container {
	a := newAttempt(t, command)
	spec := a.spec
	spec.Directories, spec.Shell = trial.Directories{}, ""
	directory := a.Directory
	a.Directory, a.Claim = filepath.Join(directory, "attempt"), filepath.Join(directory, "claim")
	return &container{attempt: a, directory: directory, stdout: &logged{}, job: stream.Job{Spec: spec, Parameter: []byte(`{"parameters":{"x":5.0}}`), Parameters: []byte(`{"x":5.0}`),
		MessageFile: filepath.Join(filepath.Dir(directory), "termination-log")}}
}

func (c *container) start(variables ...string) *container {
	job, err := c.job.Encode()
	require.NoError(c.t, err)
	require.NoError(c.t, os.WriteFile(c.job.MessageFile, bytes.Repeat([]byte("x"), 5000), 0o600))
	c.command = exec.Command(binary, "container", c.directory)
	c.command.Dir = c.spec.Directories.Code
	c.command.Env = append(append(os.Environ(), stream.JobVariable+"="+string(job)), variables...)
	c.command.Stdout, c.command.Stderr = c.stdout, os.Stderr
	require.NoError(c.t, c.command.Start())
	c.t.Cleanup(func() {
		c.command.Process.Kill()
		c.command.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(c.t, c.Sweep(ctx, c.spec.Key))
	})
	return c
}

func (c *container) code() int {
	err := c.command.Wait()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		require.NoError(c.t, err)
	}
	return c.command.ProcessState.ExitCode()
}

func (c *container) told() stream.Message {
	text, err := os.ReadFile(c.job.MessageFile)
	require.NoError(c.t, err)
	message, err := stream.ParseMessage(text)
	require.NoError(c.t, err)
	return message
}

// printer starts the container that prints the journal alone.
func (c *container) printer() (*exec.Cmd, *logged) {
	log := &logged{}
	command := exec.Command(binary, "journal", c.directory)
	command.Stdout, command.Stderr = log, os.Stderr
	require.NoError(c.t, command.Start())
	c.t.Cleanup(func() { command.Process.Kill(); command.Wait() })
	return command, log
}

// read returns what a log holds of the run's metrics, and its end.
func (c *container) read(log *logged) ([]string, *stream.Reader) {
	reader := stream.NewReader(c.spec.Key, 0)
	return lines(reader.Feed([]byte(log.String()))), reader
}

func lines(records []metrics.Record) (lines []string) {
	for _, record := range records {
		lines = append(lines, fmt.Sprint(record.Number, " ", record.Kind, " ", record.Value))
	}
	return lines
}

func TestAContainersLogHasTheOutputAndTheJournal(t *testing.T) {
	c := newContainer(t, `pwd; cat "$PERENNIAL_PARAMETERS"; echo; printf 'no end'; sleep 0.5; echo 'perennial: intermediate 0.5'
echo "job: ${PERENNIAL_JOB:-none}"; echo 'perennial: final {"default": 1}'; exit 3`).start()
	require.Equal(t, 3, c.code(), "the container's code is the command's")
	found, reader := c.read(c.stdout)
	require.Equal(t, []string{"1 PERIODICAL 0.5", `2 FINAL {"default": 1}`}, found)
	require.True(t, reader.Whole())
	require.Equal(t, trial.Exit{Code: 3}, reader.End().Exit.Exit)
	var shown []string
	for line := range strings.Lines(c.stdout.String()) {
		if !strings.HasPrefix(line, "perennial-journal/1 ") {
			shown = append(shown, line)
		}
	}
	require.Equal(t, c.spec.Directories.Code+"\n{\"x\":5.0}\nno endperennial: intermediate 0.5\njob: none\nperennial: final {\"default\": 1}\n", strings.Join(shown, ""))

	message := c.told()
	require.Equal(t, int64(2), message.Records)
	require.Equal(t, 3, message.Exit.Exit.Code)
	fresh := stream.NewReader(c.spec.Key, 0)
	require.Len(t, fresh.Told(message), 2, "the message alone tells of a short trial all that there is")
	require.True(t, fresh.Whole())
}

func TestAContainerBesideItPrintsTheJournalAloneAndEnds(t *testing.T) {
	c := newContainer(t, `for i in 1 2 3; do echo "chatter perennial: intermediate $i"; done; until [ -e go ]; do sleep 0.01; done; echo 'perennial: final 4'`)
	c.job.JournalElsewhere = true
	beside, log := c.printer()
	c.start()
	require.Eventually(t, func() bool { found, _ := c.read(log); return len(found) == 3 }, patience, 10*time.Millisecond)
	require.NoError(t, beside.Process.Signal(syscall.SIGTERM), "a pod that is deleted tells both")
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(c.job.MessageFile)
		require.NoError(t, err)
		message, err := stream.ParseMessage(text)
		return err == nil && message.Records == 3 && message.Exit == nil
	}, patience, 10*time.Millisecond, "it is kept while the command runs")
	c.tell("go")
	require.Zero(t, c.code())
	require.NoError(t, beside.Wait())
	found, reader := c.read(log)
	require.Len(t, found, 4)
	require.True(t, reader.Whole())
	require.Zero(t, reader.End().Exit.Exit.Code)
	require.NotContains(t, log.String(), "chatter")
	require.NotContains(t, c.stdout.String(), "perennial-journal")
}

func TestAContainerThatIsKilledLeavesItsLastValues(t *testing.T) {
	c := newContainer(t, `echo 'perennial: intermediate 1'; echo 'perennial: final 2'; echo > ready; sleep 1000`)
	beside, log := c.printer()
	c.start()
	c.waitFor("ready")
	require.Eventually(t, func() bool { return strings.Contains(c.stdout.String(), "perennial-journal/1 2 ") }, patience, 10*time.Millisecond)
	require.NoError(t, c.command.Process.Kill())
	require.Equal(t, -1, c.code())
	require.NoError(t, beside.Wait())
	found, reader := c.read(log)
	require.Equal(t, []string{"1 PERIODICAL 1", "2 FINAL 2"}, found)
	require.Nil(t, reader.End().Exit, "nobody knows how the command ended")
	message := c.told()
	require.Nil(t, message.Exit)
	require.Equal(t, []string{"2 FINAL 2", "1 PERIODICAL 1"}, lines(message.Last))
}

func TestAContainerThatIsKilledBeforeItsCommandBeginsHasToldThatItWasThere(t *testing.T) {
	c := newContainer(t, "touch ran; sleep 1000").start(rundir.CrashVariable + "=runner.told-before-claim")
	require.Error(t, c.command.Wait())
	message := c.told()
	require.Equal(t, c.spec.Key.String(), message.Run)
	require.Nil(t, message.Exit)
	require.NoFileExists(t, filepath.Join(c.spec.Directories.Code, "ran"))
}

func TestAContainerThatIsStartedAgainTellsWhatTheFirstOneDid(t *testing.T) {
	c := newContainer(t, `echo ran >> ran; echo 'perennial: final 2'; exit 4`).start()
	require.Equal(t, 4, c.code())
	first, reader := c.read(c.stdout)
	c.start()
	require.Equal(t, 4, c.code())
	require.Equal(t, "ran", c.waitFor("ran"))
	require.Equal(t, int64(1), c.told().Records)
	again, _ := c.read(c.stdout)
	require.Equal(t, first, again)
	require.Empty(t, reader.Feed([]byte(c.stdout.String())), "each record is returned once")
}

func TestAContainerThatIsStoppedFromOutsideSaysSo(t *testing.T) {
	c := newContainer(t, `echo > ready; sleep 1000`).start()
	c.waitFor("ready")
	require.NoError(t, c.command.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, c.code())
	require.True(t, c.told().Exit.Exit.Outside)
}

func TestARunInAContainerCanBeEndedOnSomebodysBehalf(t *testing.T) {
	c := newContainer(t, `trap "echo 'perennial: final 1'; exit 0" TERM; echo > ready; while :; do sleep 0.05; done`).start()
	c.waitFor("ready")
	require.Error(t, exec.Command(binary, "end", c.directory, "whim").Run())
	require.NoError(t, exec.Command(binary, "end", c.directory, string(trial.CauseEarlyStop), "d7").Run())
	require.Zero(t, c.code())
	require.Equal(t, &trial.Intent{Cause: trial.CauseEarlyStop, Decision: "d7"}, c.told().Exit.Intent)
	require.Equal(t, int64(1), c.told().Records)
}

func TestAJobThatCannotStartEndsBothContainers(t *testing.T) {
	for _, text := range []string{"", "{", `{"format": 99}`} {
		t.Run(text, func(t *testing.T) {
			c := newContainer(t, "true")
			beside, _ := c.printer()
			main := exec.Command(binary, "container", c.directory)
			main.Env = append(os.Environ(), stream.JobVariable+"="+text)
			said, err := main.CombinedOutput()
			require.Error(t, err)
			require.Equal(t, 126, main.ProcessState.ExitCode())
			require.NotEmpty(t, said)
			require.NoError(t, beside.Wait())
		})
	}
}

func TestALogThatNobodyReadsDoesNotKillTheRun(t *testing.T) {
	c := newContainer(t, `echo one; until [ -e go ]; do sleep 0.01; done; echo two; echo 'perennial: final 1'`)
	job, err := c.job.Encode()
	require.NoError(t, err)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	main := exec.Command(binary, "container", c.directory)
	main.Dir, main.Stdout, main.Env = c.spec.Directories.Code, write, append(os.Environ(), stream.JobVariable+"="+string(job))
	require.NoError(t, main.Start())
	require.NoError(t, write.Close())
	require.NoError(t, read.Close())
	c.tell("go")
	require.NoError(t, main.Wait())
	require.Equal(t, int64(1), c.told().Records)
}

func TestAContainerWithoutRoomSaysSoInItsMessage(t *testing.T) {
	c := newContainer(t, "true")
	c.directory = "/proc/perennial" // where nobody can make anything
	require.Equal(t, 126, c.start().code())
	exit := c.told().Exit
	require.Equal(t, 126, exit.Exit.Code)
	require.Contains(t, exit.Exit.Text, "cannot start: ")
}
