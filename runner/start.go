package runner

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/runner/rundir"
)

// ExecCommand is the sub-command by which the runner calls itself to become the
// user's command, see Exec.
const ExecCommand = "exec"

const (
	gateDescriptor  = 3 // read by Exec: one byte opens the gate
	faultDescriptor = 4 // written by Exec: why the command cannot be started
)

// raisedOOMScore is what the command's oom_score_adj is raised by: when memory
// runs out the trial goes first, and its runner tells the tale.
const raisedOOMScore = 500

// child is the user's command.
type child struct {
	pid     int
	gate    *os.File
	fault   *os.File
	started time.Time // zero: the gate was never opened
	ended   time.Time // zero: it lives
	status  unix.WaitStatus
	said    *string // see text
}

// start starts the command. Its process waits at a gate until the process record,
// which names it, is durable: from then on it counts as started.
func (a *attempt) start() error {
	var err error
	if a.process, err = rundir.ThisProcess(); err != nil {
		return err
	}
	if err := a.fork(); err != nil {
		return err
	}
	if a.process.Child, err = rundir.Identify(a.child.pid); err != nil {
		return errors.Join(err, a.child.gate.Close())
	}
	a.process.Started = time.Now()
	a.noteLease()
	if err := a.run.WriteProcess(a.process); err != nil {
		return errors.Join(err, a.child.gate.Close())
	}
	rundir.CrashPoint("runner.started-before-child-exec")
	return a.openGate()
}

// openGate lets the command run, unless somebody wanted its end before. That
// nobody can tell is no reason to run or to give up: it is asked again.
func (a *attempt) openGate() error {
	defer a.child.gate.Close()
	a.log.until("read the intent", func() (err error) {
		a.intent, err = a.run.ReadIntent()
		return err
	})
	if a.intent != nil {
		return nil
	}
	a.child.started = a.process.Started
	_, err := a.child.gate.Write([]byte{1})
	if errors.Is(err, unix.EPIPE) {
		return nil // killed at the gate: its status says so
	}
	return err
}

// fork starts the process that will become the command. The kernel kills it when
// this thread ends.
func (a *attempt) fork() error {
	environment, err := a.environment()
	if err != nil {
		return err
	}
	files, err := a.childFiles()
	defer files.close()
	if err != nil {
		return err
	}
	command := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"perennial-runner", ExecCommand, a.run.Directory},
		Env: environment, Stdout: files.stdout, Stderr: files.stderr,
		ExtraFiles:  []*os.File{files.gate, files.fault},
		SysProcAttr: &unix.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start a process: %w", err)
	}
	a.child = child{pid: command.Process.Pid, gate: files.gateOut, fault: files.faultIn}
	return nil
}

// childFiles are the files of a starting command: what it writes goes to plain
// files, since a pipe would kill it when its reader dies.
type childFiles struct {
	stdout, stderr *os.File
	gate, gateOut  *os.File
	faultIn, fault *os.File
}

func (a *attempt) childFiles() (f childFiles, err error) {
	var faults [4]error
	f.stdout, faults[0] = appendTo(a.run.Path(rundir.Stdout))
	f.stderr, faults[1] = appendTo(a.run.Path(rundir.Stderr))
	f.gate, f.gateOut, faults[2] = os.Pipe()
	f.faultIn, f.fault, faults[3] = os.Pipe()
	return f, errors.Join(faults[:]...)
}

// close closes what belongs to the command.
func (f childFiles) close() {
	for _, file := range []*os.File{f.stdout, f.stderr, f.gate, f.fault} {
		file.Close()
	}
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
}

// environment is what the command finds: the caller's variables, ours on top.
func (a *attempt) environment() ([]string, error) {
	base := os.Environ()
	if a.spec.EnvironmentFile != "" {
		caller, err := rundir.ReadEnvironment(a.spec.EnvironmentFile)
		if err != nil {
			return nil, err
		}
		base = caller.Variables
	}
	ours := a.spec.Variables()
	maps.Copy(ours, a.trialModule(base))
	var variables []string
	for _, variable := range base {
		name, _, _ := strings.Cut(variable, "=")
		if _, replaced := ours[name]; !replaced && name != rundir.CrashVariable {
			variables = append(variables, variable)
		}
	}
	for name, value := range ours {
		variables = append(variables, name+"="+value)
	}
	if a.spec.PathPrefix != "" {
		variables = withPathPrefix(variables, a.spec.PathPrefix)
	}
	sort.Strings(variables)
	return variables, nil
}

// defaultPath is what a shell searches that was given no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// withPathPrefix puts a directory in front of PATH. The variables by which bash sees
// that sshd started it go: it would read ~/.bashrc again, which may put its own first.
func withPathPrefix(variables []string, prefix string) []string {
	variables = slices.DeleteFunc(variables, func(variable string) bool {
		return strings.HasPrefix(variable, "SSH_CLIENT=") || strings.HasPrefix(variable, "SSH2_CLIENT=")
	})
	for i, variable := range variables {
		if path, found := strings.CutPrefix(variable, "PATH="); found {
			variables[i] = "PATH=" + prefix + ":" + path
			return variables
		}
	}
	return append(variables, "PATH="+prefix+":"+defaultPath)
}

// text returns what the command's process said when it could not become the
// command, empty where it could.
func (c *child) text() string {
	if c.said == nil {
		content, err := io.ReadAll(c.fault)
		text := string(content)
		if err != nil {
			text = err.Error()
		}
		c.said = &text
	}
	return *c.said
}

// Exec is the last thing this program does in the command's own process: it waits
// until the runner lets it, takes the caller's umask and limits, and becomes the
// shell that runs the command. It returns the exit code where that cannot be: 127
// where something does not exist, else 126.
func Exec(directory string) int {
	gate := os.NewFile(gateDescriptor, "gate")
	fault := os.NewFile(faultDescriptor, "fault")
	unix.CloseOnExec(gateDescriptor)
	unix.CloseOnExec(faultDescriptor)
	// Whatever else leaked down to here is not the command's; best effort, since
	// Linux before 5.11 knows no such call.
	unix.CloseRange(gateDescriptor, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if n, _ := gate.Read(make([]byte, 1)); n == 0 {
		return 126 // the runner is gone, or an intent came first
	}
	err := become(directory)
	fmt.Fprintf(fault, "cannot start: %v", err)
	fmt.Fprintf(os.Stderr, "perennial-runner: cannot start: %v\n", err)
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}

func become(directory string) error {
	_, spec, err := open(directory)
	if err != nil {
		return err
	}
	if err := os.Chdir(spec.Directories.Code); err != nil {
		return fmt.Errorf("enter the code directory: %w", err)
	}
	raiseOOMScore()
	_ = rundir.Mark(spec.Key) // doctor says where it cannot be had
	if err := restore(spec.EnvironmentFile); err != nil {
		return err
	}
	shell := spec.Shell
	if shell == "" {
		shell = rundir.Shell()
	}
	err = unix.Exec(shell, []string{shell, "-c", spec.Command}, os.Environ())
	return &os.PathError{Op: "run", Path: shell, Err: err}
}

func restore(environmentFile string) error {
	if environmentFile == "" {
		return nil
	}
	caller, err := rundir.ReadEnvironment(environmentFile)
	if err != nil {
		return err
	}
	return caller.Apply()
}

// raiseOOMScore does what it can: a kernel without it, or a score already higher,
// is as well.
func raiseOOMScore() {
	const path = "/proc/self/oom_score_adj"
	content, err := os.ReadFile(path)
	if err != nil {
		return
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err == nil {
		os.WriteFile(path, []byte(strconv.Itoa(min(1000, score+raisedOOMScore))), 0)
	}
}
