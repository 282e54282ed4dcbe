package sshlab

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
)

// Host is one SSH host.
type Host struct {
	Spec
	Name    string // the host name, and its name in the controller's ssh config
	User    string
	Address string // where the controller reaches it: of the slow link, if it has one
	Port    int

	lab     *Lab
	address string // where its sshd really is
	port    int
	init    int // pid of its first process
	ended   chan struct{}
	link    *toxiproxy.Proxy
	key     hostKeys
	boots   int
	set     []string // variables, NAME=value, of whatever is started over SSH
	own     string   // of a host without namespaces: its home
}

//go:embed host.sh
var hostScript string

func newHost(l *Lab, number int, spec Spec) *Host {
	address := l.address(10 + number)
	return &Host{Spec: spec, Name: fmt.Sprintf("host%d", number), User: User, Address: address, Port: 22,
		lab: l, address: address, port: 22}
}

func (h *Host) directory() string { return filepath.Join(h.lab.base, h.Name) }

func (h *Host) etc(name string) string { return filepath.Join(h.directory(), "etc", name) }

// Home is the path of the user's home as this machine sees it. Of a host with a
// Disk, or that cannot be written to, it changes with each boot.
func (h *Host) Home() string {
	if h.own != "" {
		return h.own
	}
	return h.Path("/home/" + User)
}

// Path is where this machine sees a path of the host, while the host is up.
func (h *Host) Path(path string) string { return fmt.Sprintf("/proc/%d/root%s", h.init, path) }

// boot starts the host, which must be off.
func (h *Host) boot() error {
	h.boots++
	if err := h.writeBootID(); err != nil {
		return err
	}
	said, err := os.OpenFile(h.etc("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer said.Close()
	command := exec.Command("sh", "-c", hostScript)
	command.Env, command.Stdout, command.Stderr = h.environment(), said, said
	if err := h.lab.spawner.start(command, syscall.CLONE_NEWNET|syscall.CLONE_NEWNS|syscall.CLONE_NEWPID|syscall.CLONE_NEWUTS); err != nil {
		return err
	}
	h.init, h.ended = command.Process.Pid, make(chan struct{})
	go func() { _ = command.Wait(); close(h.ended) }()
	return h.bringUp()
}

func (h *Host) bringUp() error {
	if err := h.wire(); err != nil {
		return err
	}
	if h.Behind != "" && h.boots == 1 {
		if err := h.hide(); err != nil {
			return err
		}
	}
	return h.awaitListening()
}

func (h *Host) environment() []string {
	environment := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LAB=" + h.directory(), "EVIDENCE=" + h.lab.Evidence, "NAME=" + h.Name,
		"SSHD=" + sshd(), "OWNER=" + strconv.Itoa(uid), "DISK=" + h.Disk, "WITHOUT=" + strings.Join(h.Without, " ")}
	if h.ReadOnly {
		environment = append(environment, "READONLY=1")
	}
	if len(h.Without)+len(h.Programs) > 0 {
		environment = append(environment, "PROGRAMS=1")
	}
	return environment
}

// PowerOff ends every process of the host at once.
func (h *Host) PowerOff() {
	if h.init == 0 {
		return
	}
	_ = syscall.Kill(h.init, syscall.SIGKILL)
	<-h.ended
	h.init = 0
}

// PowerOn starts a host that is off, with another boot id. Its home is as it was.
func (h *Host) PowerOn() { h.lab.must(h.boot()) }

// Reboot ends every process and starts the host again, with another boot id.
// What is in the home stays.
func (h *Host) Reboot() {
	h.PowerOff()
	h.PowerOn()
}

// Reinstall is Reboot with everything in the home and temporary directories gone.
func (h *Host) Reinstall() {
	h.PowerOff()
	h.lab.must(h.makeHome())
	h.PowerOn()
}

// Disconnect kills the sshd processes of all open connections: the controller
// sees an end at once. What they started goes on.
func (h *Host) Disconnect() {
	for _, process := range h.Processes() {
		if process.PID != h.init && strings.HasPrefix(process.Command, "sshd: ") {
			_ = syscall.Kill(process.PID, syscall.SIGKILL)
		}
	}
}

// SetEnv gives variables, NAME=value, to what is started over connections that
// are made from now on, instead of those of the last call.
func (h *Host) SetEnv(variables ...string) {
	h.set = variables
	h.lab.must(h.writeConfig())
	listening := h.listenings()
	h.lab.must(syscall.Kill(h.init, syscall.SIGHUP))
	for deadline := time.Now().Add(patience); h.listenings() == listening; time.Sleep(glance) {
		if time.Now().After(deadline) {
			h.lab.fail(errors.New(h.Name + " does not read its configuration again"))
			return
		}
	}
	h.lab.must(h.awaitListening())
}

// listenings counts how often sshd has begun to listen.
func (h *Host) listenings() int {
	content, _ := os.ReadFile(h.etc("log"))
	return strings.Count(string(content), "Server listening on")
}

// Process is a living process of a host, with the pid that this machine knows.
type Process struct {
	PID     int
	Command string
}

// Processes are those of the host, without zombies. Of a host without namespaces
// they are those that have its HOME.
func (h *Host) Processes() (found []Process) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	h.lab.must(err)
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		command, _ := readProc(pid, "cmdline")
		if command != "" && h.has(pid) {
			found = append(found, Process{pid, strings.TrimSpace(strings.ReplaceAll(command, "\x00", " "))})
		}
	}
	return found
}

func (h *Host) has(pid int) bool {
	if h.own != "" {
		environment, _ := readProc(pid, "environ")
		return strings.Contains("\x00"+environment, "\x00HOME="+h.own+"\x00")
	}
	its, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", h.init))
	return err == nil && its == namespace
}

func readProc(pid int, name string) (string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	return string(content), err
}

// SSH prepares the system's ssh client to run a command on the host, as the
// controller would.
func (h *Host) SSH(ctx context.Context, command ...string) *exec.Cmd {
	arguments := []string{"-F", filepath.Join(h.lab.Home, ".ssh", "config"), "-o", "BatchMode=yes", h.Name}
	return exec.CommandContext(ctx, "ssh", append(arguments, command...)...)
}

// Sh runs a script on the host, over SSH, and returns what it printed.
func (h *Host) Sh(script string) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := h.SSH(ctx, "exec sh -s")
	command.Stdin = strings.NewReader(script)
	out, err := command.CombinedOutput()
	if err != nil {
		h.lab.must(errors.New(h.Name + ": " + script + ": " + err.Error() + ": " + string(out)))
	}
	return string(out)
}

func (h *Host) logTail() string {
	content, _ := os.ReadFile(h.etc("log"))
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n  ")
}
