package endtoend

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStateDirectoryThatCannotBeWrittenIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		Skip(t, "setpriv needs root")
	}
	h := NewHome(t)
	file := h.Experiment(short(1, 1))
	require.NoError(t, os.Mkdir(h.Dir, 0o755))
	out := h.refusedToNobody("run", file)
	require.Contains(t, out, "cannot be written")
	require.Contains(t, out, "PERENNIAL_HOME")
	require.Empty(t, listing(t, h.Dir))
}

func TestReadingAStateDirectoryThatCannotBeWrittenSaysSoInWords(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		Skip(t, "setpriv needs root")
	}
	h := NewHome(t)
	h.Serve()
	h.Must("serve", "--stop")
	for _, command := range [][]string{{"chown", "-R", "65534:65534", h.Dir}, {"chmod", "-R", "a-w", h.Dir}} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for _, reading := range []string{"ls", "show", "trials"} {
		require.Contains(t, h.refusedToNobody(reading), "the record cannot be read where its directory cannot be written")
	}
}

// refusedToNobody runs a command as a user who has no rights, and returns what it said
// when it refused.
func (h *Home) refusedToNobody(args ...string) string {
	require.NoError(h.t, os.Chmod(filepath.Dir(h.Dir), 0o755))
	// The program may lie where that user cannot go.
	program := filepath.Join(h.Work, "starter")
	copied, err := exec.Command("cp", Program(h.t), program).CombinedOutput()
	require.NoError(h.t, err, "%s", copied)
	command := exec.Command("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", program}, args...)...)
	command.Env = append(os.Environ(), "PERENNIAL_HOME="+h.Dir, "HOME=/nonexistent")
	out, err := command.CombinedOutput()
	require.Error(h.t, err)
	require.Equal(h.t, 2, command.ProcessState.ExitCode(), "%s", out)
	return string(out)
}

func listing(t *testing.T, directory string) (names []string) {
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestAStateDirectoryOfANewerVersionIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	file := h.Experiment(short(1, 1))
	require.NoError(t, os.MkdirAll(h.Dir, 0o700))
	format := filepath.Join(h.Dir, "format")
	require.NoError(t, os.WriteFile(format, []byte("{\"format\":99}\n"), 0o600))
	result := h.Run("run", file)
	require.Equal(t, 2, result.Code, "%+v", result)
	require.Contains(t, result.Stderr, "newer starter")
	content, err := os.ReadFile(format)
	require.NoError(t, err)
	require.Equal(t, "{\"format\":99}\n", string(content))
	require.Empty(t, h.Processes())
	require.NoDirExists(t, filepath.Join(h.Dir, "experiments"))
}

func TestHostsThatRaceForOneDirectoryAgreeOnOne(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	results := make([]Result, 6)
	var racing sync.WaitGroup
	for i := range results {
		racing.Go(func() { results[i] = h.Run("serve", "--detach") })
	}
	racing.Wait()
	for _, result := range results {
		require.Zero(t, result.Code, "%+v", result)
		require.Equal(t, strings.Fields(results[0].Stdout)[:2], strings.Fields(result.Stdout)[:2], "all found the same host")
	}
	h.Await("the losers' end", func() bool { return len(h.Processes(Host)) == 1 })
	second := h.Run("serve")
	require.Equal(t, 4, second.Code, "%+v", second)
	require.Contains(t, second.Stderr, "already serves")
	h.RequireNothingLeft()
}

// damage overwrites the beginning of a file, SQLite's header and schema.
func damage(t *testing.T, path string) []byte {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.WriteAt([]byte(strings.Repeat("garbage!", 1024)), 0)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func TestADamagedRecordIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	file := h.Experiment(short(1, 1))
	require.Zero(t, h.Follow(file).Wait(Patience))
	h.RequireNothingLeft()
	path := filepath.Join(h.Dir, "record.sqlite")
	damaged := damage(t, path)
	for _, words := range [][]string{{"run", file}, {"ls"}, {"resume"}} {
		result := h.Run(words...)
		require.Equal(t, 2, result.Code, "%v: %+v", words, result)
		require.Contains(t, result.Stderr, path, "%v", words)
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, damaged, content)
	require.Empty(t, h.Processes(Host, Runner))
}

func TestADamagedTemporalDatabaseLosesNothing(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(long(4, 2)))
	id := run.ID()
	h.AwaitRunning(id, 2)
	run.Signal(syscall.SIGSTOP)
	h.KillAndAwait(Host)
	database := filepath.Join(h.Dir, "temporal", "temporal.db")
	damage(t, database)
	damage(t, database+"-wal")
	refused := h.Run("serve", "--detach")
	require.Equal(t, 4, refused.Code, "%+v", refused)
	require.Contains(t, refused.Stderr, database+" is damaged")
	require.Contains(t, refused.Stderr, "move it and its -wal and -shm files away")
	require.NoError(t, os.RemoveAll(filepath.Join(h.Dir, "temporal")))
	run.Signal(syscall.SIGCONT)
	require.Equal(t, "DONE", run.Finished(2*Patience).Status)
	h.RequireExactlyOnce(id, 4, nil)
	h.RequireNothingLeft()
}

func TestADiskThatIsFullWhileTrialsRunLosesNothing(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		Skip(t, "a small tmpfs needs root")
	}
	h := NewHome(t)
	require.NoError(t, os.Mkdir(h.Dir, 0o700))
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=96m,mode=700", "tmpfs", h.Dir).CombinedOutput()
	if err != nil {
		Skip(t, "no tmpfs could be mounted: %v %s", err, out)
	}
	t.Cleanup(func() { h.KillAll(); _ = exec.Command("umount", "--lazy", h.Dir).Run() })
	run := h.Follow(h.Experiment(Plan{Trials: 6, Concurrency: 2, Steps: "8", Pause: "0.5"}))
	id := run.ID()
	h.AwaitRunning(id, 2)
	filler := filepath.Join(h.Dir, "filler")
	fill(t, filler)
	h.Await("the first trials' own end", func() bool { return ended(h) >= 2 })
	h.Await("word of the full disk", func() bool { return slices.Contains(notices(run), "disk-full") })
	require.Zero(t, h.Run("show", id).Code, "what is on record can be read on a full disk")
	require.NoError(t, os.Remove(filler))
	require.Equal(t, "DONE", run.Finished(3*Patience).Status)
	h.RequireExactlyOnce(id, 6, nil)
	h.RequireNothingLeft()
}

// notices are the codes of what was said beside the trials.
func notices(run *Following) (codes []string) {
	for _, event := range run.Events() {
		codes = append(codes, event.Code)
	}
	return codes
}

// fill takes every byte that is left.
func fill(t *testing.T, path string) {
	file, err := os.Create(path)
	require.NoError(t, err)
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// ended counts the attempts that came to their end.
func ended(h *Home) (count int) {
	for _, attempts := range h.Ledger() {
		for _, ran := range attempts {
			if ran.Ended {
				count++
			}
		}
	}
	return count
}

func TestBadExperimentsStartNothing(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	good := h.Experiment(short(1, 1))
	content, err := os.ReadFile(good)
	require.NoError(t, err)
	edit := func(old, new string) string {
		require.Contains(t, string(content), old)
		return h.Write(strings.Fields(new)[1]+".yml", strings.Replace(string(content), old, new, 1))
	}
	bad := map[string]string{
		"missing.yml":      filepath.Join(h.Work, "missing.yml"),
		"nowhere":          edit("trialCodeDirectory: .", "trialCodeDirectory: nowhere"),
		"trialConcurrency": edit("trialConcurrency: 1", "trialConcurency: 1"),
	}
	for word, file := range bad {
		result := h.Run("run", file)
		require.Equal(t, 2, result.Code, "%s: %+v", word, result)
		require.Contains(t, result.Stderr, word)
	}
	require.NoDirExists(t, h.Dir)
	require.Empty(t, h.Processes())
}

func TestACommandThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.Experiment(short(1, 1))
	file := h.Write("experiment.yml", "searchSpaceFile: space.json\ntrialCommand: no-such-command --x\ntrialCodeDirectory: .\n"+
		"trialConcurrency: 1\nmaxTrialNumber: 1\ntuner:\n  name: Random\ntrainingService:\n  platform: local\n")
	result := h.Run("run", file)
	require.Equal(t, 2, result.Code, "%+v", result)
	require.Contains(t, result.Stderr, "no-such-command")
	require.Empty(t, h.Processes())
}

func TestCtrlCDetachesAndTheExperimentGoesOn(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	run := h.Follow(h.Experiment(short(4, 2)))
	id := run.ID()
	h.AwaitRunning(id, 1)
	run.Signal(syscall.SIGINT)
	require.Equal(t, 130, run.Wait(Patience))
	events := run.Events()
	require.Equal(t, "detached", events[len(events)-1].Event)
	h.Await("the end without anybody watching", func() bool { return h.Show(id).Status == "DONE" })
	h.RequireExactlyOnce(id, 4, nil)
	h.RequireNothingLeft()
}

func TestDetachReturnsAtOnceWithTheID(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	out := h.Must("run", h.Experiment(short(2, 2)), "--detach", "--output", "json")
	var event Event
	require.NoError(t, json.Unmarshal([]byte(out), &event), out)
	require.NotEmpty(t, event.ID)
	h.Await("the end", func() bool { return h.Show(event.ID).Status == "DONE" })
	h.RequireExactlyOnce(event.ID, 2, nil)
	h.RequireNothingLeft()
}

func TestTermAndIntEndACommandWhoseHostDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	h.Follow(h.Experiment(long(1, 1)))
	for _, host := range h.Processes(Host) {
		require.NoError(t, syscall.Kill(host.PID, syscall.SIGSTOP))
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		command := h.Start("update", "concurrency", "2")
		h.Await("the command at work", func() bool { return strings.Contains(command.said(), "the only active one") })
		command.Signal(signal)
		require.Equal(t, 130, command.Wait(Patience))
	}
}
