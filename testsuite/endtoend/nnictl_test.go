package endtoend

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// jsonOf runs a command of nnictl's that prints JSON.
func jsonOf[T any](h *Home, args ...string) (told T) {
	h.t.Helper()
	text := h.Must(append([]string{"nnictl"}, args...)...)
	require.NoError(h.t, json.Unmarshal([]byte(text), &told), text)
	return told
}

type jobOfNNI struct {
	ID     string `json:"trialJobId"`
	Status string
	Start  string                  `json:"startTime"`
	Final  []struct{ Data string } `json:"finalMetricData"`
}

func TestNnictlStartsReadsChangesAndEndsAnExperimentAsNNIDid(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	nnictl := func(args ...string) string { return h.Must(append([]string{"nnictl"}, args...)...) }
	created := nnictl("create", "--config", h.Experiment(endless(3, 2)))
	id := regexp.MustCompile(`Experiment ID: (\w+)`).FindStringSubmatch(created)[1]
	h.AwaitRunning(id, 2)
	require.Regexp(t, "Id: "+id+`    Name: endtoend    Status: RUNNING    Port: N/A    Platform: local    StartTime: \d{4}-.*EndTime: N/A`, nnictl("experiment", "list"))
	require.Equal(t, map[string]any{"status": "RUNNING", "errors": []any{}}, jsonOf[map[string]any](h, "experiment", "status"))
	require.Equal(t, 2.0, jsonOf[map[string]any](h, "config", "show", id)["trialConcurrency"])
	jobs := jsonOf[[]jobOfNNI](h, "trial", "ls", id)
	require.Len(t, jobs, 2)
	require.Regexp(t, `^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d$`, jobs[0].Start)
	require.Contains(t, nnictl("log", "trial", id, "-T", jobs[0].ID), "INFO: id:"+jobs[0].ID+" path:/")
	require.FileExists(t, strings.TrimSpace(nnictl("log", "stderr", "--path")))
	require.Equal(t, 2, strings.Count(nnictl("log", "stdout", "--head", "2"), "\n"))
	top := h.Start("nnictl", "top", "-t", "1")
	h.Await("a picture", func() bool { return strings.Contains(top.Said(), jobs[0].ID) })
	top.Signal(syscall.SIGINT)
	require.Zero(t, top.Wait(Patience))

	require.Equal(t, "INFO: Update concurrency success!\n", nnictl("update", "concurrency", id, "--value", "1"))
	require.Equal(t, "INFO: Update trialnum success!\n", nnictl("update", "trialnum", "-v", "2"))
	nnictl("trial", "kill", id, "--trial_id", jobs[0].ID)
	h.AwaitState(id, 0, "USER_CANCELED", 1)
	require.Contains(t, nnictl("stop", id[:6]+"*"), "INFO: Stopping experiment "+id+"\nINFO: Stop experiment success.\n")
	require.Equal(t, "STOPPED", jsonOf[map[string]any](h, "experiment", "status", id)["status"])
	require.NotContains(t, nnictl("experiment", "list"), id)
	require.Contains(t, nnictl("experiment", "list", "--all"), id)
	require.Equal(t, id, jsonOf[map[string]any](h, "experiment", "show")["id"])
}

func TestNnictlReadsAndDeletesWhatIsDoneAndSaysWhatTookThePlaceOfTheRest(t *testing.T) {
	t.Parallel()
	h := NewHome(t)
	bin := filepath.Join(h.Work, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	h.Must("install-nnictl", bin)
	h.Must("install-nnictl", bin)
	command := exec.CommandContext(t.Context(), filepath.Join(bin, "nnictl"), "create", "-c", h.Experiment(short(4, 2)), "--foreground")
	command.Dir, command.Env = h.Work, h.environment()
	said, err := command.CombinedOutput()
	require.NoError(t, err, "%s", said)
	id := h.only()
	best := jsonOf[[]jobOfNNI](h, "trial", "ls", "--head", "1")
	require.Equal(t, `"4"`, best[0].Final[0].Data, "the last of them is the highest")
	worst := jsonOf[[]jobOfNNI](h, "trial", "ls", "--tail", "2")
	require.Len(t, worst, 2)
	file := filepath.Join(h.Work, "results.csv")
	h.Must("nnictl", "experiment", "export", id, "--type", "csv", "--filename", file, "-i")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(content), "reward")
	gone := h.Run("nnictl", "experiment", "save", id)
	require.Equal(t, 2, gone.Code)
	require.Contains(t, gone.Stderr, "nnictl experiment save is not here: back up the state directory")
	refused := h.Run("nnictl", "resume", id, "-e", "/elsewhere")
	require.Equal(t, 2, refused.Code)
	require.Contains(t, refused.Stderr, "$PERENNIAL_HOME")
	require.Contains(t, h.Must("nnictl", "webui", "url"), "INFO: Web UI url: http://127.0.0.1:")
	require.Contains(t, h.Must("trial", "ls"), "trialJobId", "without the word, where starter has no such command")
	deleting := h.Command(t.Context(), "nnictl", "experiment", "delete", "--all")
	deleting.Stdin = strings.NewReader("y\n")
	said, err = deleting.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NotContains(t, h.Must("nnictl", "experiment", "list", "--all"), id)
	h.RequireNothingLeft()
}
