// Package remote tells the stories, and what else can happen to trials on SSH
// hosts, with the real program and real hosts of a laboratory (package sshlab).
package remote

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

// world is a controller with a state directory of its own, and the hosts that its
// experiments use.
type world struct {
	*endtoend.Home
	t   *testing.T
	lab *sshlab.Lab
}

func newWorld(t *testing.T, specs ...sshlab.Spec) *world {
	t.Helper()
	return controller(t, sshlab.New(t, specs...), "work")
}

// controller returns one of the controllers of a lab. Its working directory, and
// with it the ledger, is at the same path on every host.
func controller(t *testing.T, lab *sshlab.Lab, name string) *world {
	t.Helper()
	return (&world{endtoend.NewHome(t), t, lab}).settle(name)
}

func (w *world) settle(name string) *world {
	w.Work = filepath.Join(w.lab.Evidence, name)
	require.NoError(w.t, os.Mkdir(w.Work, 0o755))
	w.Write("ledger", "")
	// Umask or not: whoever runs a trial writes to it.
	require.NoError(w.t, os.Chmod(w.LedgerFile(), 0o666))
	return w
}

// machines are the lines of trainingService that name all hosts of the lab; more
// are lines of every machine.
func (w *world) machines(more ...string) string {
	var lines strings.Builder
	lines.WriteString(w.platform())
	for _, h := range w.lab.Hosts {
		lines.WriteString("  - " + strings.Join(append(w.machine(h), more...), "\n    ") + "\n")
	}
	return lines.String()
}

// platform begins a section; as ssh itself the platform does not look at HOME.
func (w *world) platform() string {
	return "  platform: remote\n  sshConfigFile: " + filepath.Join(w.lab.Home, ".ssh", "config") + "\n  machineList:\n"
}

// machine names a host behind another as the controller's ssh config knows it.
func (w *world) machine(h *sshlab.Host) []string {
	lines := []string{"host: " + h.Address, fmt.Sprintf("port: %d", h.Port)}
	if h.Behind != "" {
		lines = []string{"host: " + h.Name}
	}
	lines = append(lines, "user: "+h.User)
	if h.Password != "" {
		return append(lines, "password: "+h.Password)
	}
	return append(lines, "sshKeyFile: "+w.lab.KeyFile(sshlab.Key))
}

// plan completes a plan for trials on the hosts.
func (w *world) plan(plan endtoend.Plan) string {
	plan.Code = "code"
	if plan.Platform == "" {
		plan.Platform = w.machines()
	}
	return w.Experiment(plan)
}

func (w *world) follow(plan endtoend.Plan) *endtoend.Following { return w.Follow(w.plan(plan)) }

// short is a plan whose trials take about a second, long one whose trials outlast
// a restart of the controller.
func short(trials, concurrency int) endtoend.Plan {
	return endtoend.Plan{Trials: trials, Concurrency: concurrency, Steps: "3", Pause: "0.3"}
}

func long(trials, concurrency int) endtoend.Plan {
	return endtoend.Plan{Trials: trials, Concurrency: concurrency, Steps: "20", Pause: "0.5"}
}

// doomed is long for all but trial 0, whose first attempt outlasts whatever the
// test has in mind for it.
func doomed(trials, concurrency int) endtoend.Plan {
	plan := long(trials, concurrency)
	plan.Steps = "PERENNIAL_SEQUENCE > 0 || PERENNIAL_ATTEMPT > 1 ? 20 : 120"
	return plan
}

// remoteRunner is a runner on a host.
type remoteRunner struct {
	sshlab.Process
	host    *sshlab.Host
	attempt string // "trial/number"
}

// runs is a runner's command line; its program is named by its content.
var runs = regexp.MustCompile(`^\S+ run \S+/trials/([a-z0-9]+)/attempt-([0-9]+)$`)

// runners are those of all hosts that are up.
func (w *world) runners() (found []remoteRunner) {
	seen := map[string]bool{} // what a runner forks looks like it for a moment
	for _, h := range w.lab.Hosts {
		for _, process := range h.Processes() {
			words := runs.FindStringSubmatch(process.Command)
			if words == nil || seen[h.Name+words[0]] {
				continue
			}
			seen[h.Name+words[0]] = true
			found = append(found, remoteRunner{process, h, words[1] + "/" + words[2]})
		}
	}
	return found
}

// runnerOf waits for the runner of an attempt.
func (w *world) runnerOf(trial string, attempt int) (found remoteRunner) {
	w.t.Helper()
	wanted := fmt.Sprintf("%s/%d", trial, attempt)
	w.Await("the runner of "+wanted, func() bool {
		for _, runner := range w.runners() {
			if runner.attempt == wanted {
				found = runner
				return true
			}
		}
		return false
	})
	return found
}

// left are all processes on the hosts that are not sshd's.
func (w *world) left() (left []sshlab.Process) {
	for _, h := range w.lab.Hosts {
		for _, process := range h.Processes() {
			if !strings.HasPrefix(process.Command, "sshd: ") {
				left = append(left, process)
			}
		}
	}
	return left
}

// requireNothingLeft ends the controller's host in order, and checks that on the
// hosts nothing runs and no claim is held, once what is under way has ended.
func (w *world) requireNothingLeft() {
	w.t.Helper()
	w.Await("the end of all runners", func() bool { return len(w.runners()) == 0 })
	w.RequireNothingLeft()
	w.Await(fmt.Sprintf("the end of %v", w.left()), func() bool { return len(w.left()) == 0 })
	require.Empty(w.t, w.heldClaims())
}

func (w *world) heldClaims() (held []string) {
	for _, h := range w.lab.Hosts {
		_ = filepath.WalkDir(h.Home(), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && strings.HasSuffix(path, ".claim") && isLocked(path) {
				held = append(held, path)
			}
			return nil
		})
	}
	return held
}

func isLocked(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// attempts are a trial's, as the record has them.
func (w *world) attempts(id string, sequence int) []record.Attempt {
	w.t.Helper()
	store, err := record.OpenReadOnly(filepath.Join(w.Dir, "record.sqlite"))
	require.NoError(w.t, err)
	defer store.Close()
	attempts, err := store.Attempts(w.t.Context(), id, sequence)
	require.NoError(w.t, err)
	return attempts
}

// awaitReason waits until a trial has a reason of that code, and returns it.
func (w *world) awaitReason(id string, sequence int, code string) (text string) {
	w.t.Helper()
	w.Await("the reason "+code, func() bool {
		found := w.Trial(id, sequence).Reason
		text = found.Text
		return found.Code == code
	})
	return text
}
