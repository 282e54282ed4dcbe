// Package slurmlab is a laboratory for tests that need a Slurm cluster: the real
// slurmctld, a slurmd for each node and munge, all of Debian's, with ports, keys
// and state of their own, until the test ends.
//
// The nodes are processes of this machine that share its files, as the nodes of a
// cluster share a home. Each is a PID namespace: Crash ends all that runs on one
// at once, as a power cut does. Everything ends with the test's process, also a
// killed one.
//
// Root and Debian's slurmctld, slurmd, slurm-client and munge are needed.
package slurmlab

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

const (
	patience = 60 * time.Second
	glance   = 20 * time.Millisecond
)

// Partitions of every cluster. Jobs of Urgent take the nodes of Main's.
const (
	Main   = "main"
	Urgent = "urgent"
)

// Nodes are the names of every cluster's nodes. Each has 4 processors and 2 GPUs
// that are nothing but names.
var Nodes = []string{"n1", "n2"}

// Cluster is one running Slurm.
type Cluster struct {
	// Home is a directory that all nodes share; anything on this machine is.
	Home string

	t         testing.TB
	directory string
	ports     []int // of the controller, then of the nodes
	mutex     sync.Mutex
	running   map[string]*exec.Cmd // daemons by name
}

// New brings a cluster up, all nodes idle. Without root, or the programs it needs,
// the test is left out; in CI it fails.
func New(t testing.TB) *Cluster {
	t.Helper()
	if missing := Missing(); missing != "" {
		machine.Lacks(t, "%s", missing)
	}
	c := &Cluster{t: t, directory: shortDirectory(t), ports: machine.FreePorts(t, 1+len(Nodes)), running: map[string]*exec.Cmd{}}
	c.Home = filepath.Join(c.directory, "home")
	t.Cleanup(c.close)
	c.configure()
	c.startMunge()
	c.StartController()
	for _, node := range Nodes {
		c.StartNode(node)
	}
	c.Await("idle nodes", func() bool {
		return strings.Count(c.try("sinfo", "-h", "-N", "-p", Main, "-o", "%t"), "idle") == len(Nodes)
	})
	return c
}

// Missing says what this machine lacks for a cluster, empty if nothing.
func Missing() string {
	if os.Getuid() != 0 {
		return "a Slurm cluster needs root, who may make namespaces"
	}
	for _, program := range []string{"slurmctld", "slurmd", "sbatch", "munged", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is missing: apt-get install slurmctld slurmd slurm-client munge util-linux"
		}
	}
	return ""
}

// shortDirectory is one whose paths fit into a socket's name, and that munge's own
// user may enter.
func shortDirectory(t testing.TB) string {
	directory, err := os.MkdirTemp("", "slurm-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	require.NoError(t, os.Chmod(directory, 0o755))
	return directory
}

// configuration has what a test would wait for happen soon: nodes are down after
// five silent seconds, and jobs that have ended are forgotten after ten.
const configuration = `ClusterName=lab
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
AuthType=auth/munge
AuthInfo=socket=%[3]s/munge.socket
CryptoType=crypto/munge
SlurmUser=root
StateSaveLocation=%[3]s/state
SlurmdSpoolDir=%[3]s/spool-%%n
SlurmctldPidFile=%[3]s/slurmctld.pid
SlurmdPidFile=%[3]s/slurmd-%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
ReturnToService=2
SlurmdTimeout=5
KillWait=3
MinJobAge=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
AccountingStorageType=accounting_storage/none
`

func (c *Cluster) configure() {
	host, err := os.Hostname()
	require.NoError(c.t, err)
	host, _, _ = strings.Cut(host, ".")
	text := fmt.Sprintf(configuration, host, c.ports[0], c.directory)
	for i, node := range Nodes {
		text += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=4 RealMemory=1000 Gres=gpu:2\n", node, host, c.ports[1+i])
	}
	nodes := strings.Join(Nodes, ",")
	text += fmt.Sprintf("PartitionName=%s Nodes=%s Default=YES PriorityTier=1\nPartitionName=%s Nodes=%[2]s PriorityTier=10\n", Main, nodes, Urgent)
	c.write("slurm.conf", text)
	c.write("gpu0", "")
	c.write("gpu1", "")
	c.write("gres.conf", fmt.Sprintf("NodeName=%s Name=gpu File=%s/gpu[0-1]\n", nodes, c.directory))
	for _, directory := range []string{"state", "home"} {
		require.NoError(c.t, os.Mkdir(filepath.Join(c.directory, directory), 0o755))
	}
}

func (c *Cluster) write(name, content string) {
	require.NoError(c.t, os.WriteFile(filepath.Join(c.directory, name), []byte(content), 0o600))
}

func (c *Cluster) startMunge() {
	c.write("munge.key", rand.Text()+rand.Text()+rand.Text())
	path := func(name string) string { return filepath.Join(c.directory, name) }
	c.start("munged", "munged", "--foreground", "--force", "--key-file="+path("munge.key"), "--socket="+path("munge.socket"),
		"--pid-file="+path("munge.pid"), "--log-file="+path("munge.log"), "--seed-file="+path("munge.seed"))
	c.Await("munge's socket", func() bool { _, err := os.Stat(path("munge.socket")); return err == nil })
}

// Environment are the variables, NAME=value, with which Slurm's commands find this
// cluster.
func (c *Cluster) Environment() []string {
	return []string{"SLURM_CONF=" + filepath.Join(c.directory, "slurm.conf")}
}

// StartController starts slurmctld, with what an earlier one wrote down.
func (c *Cluster) StartController() {
	c.start("slurmctld", "slurmctld", "-D")
	c.Await("slurmctld", func() bool {
		return c.try("scontrol", "ping") != "" && strings.Contains(c.try("scontrol", "ping"), "UP")
	})
}

// StopController has slurmctld write down what it knows and end; jobs go on.
func (c *Cluster) StopController() { c.end("slurmctld", syscall.SIGTERM) }

// KillController ends slurmctld by SIGKILL; jobs go on. It forgets what happened in
// its last seconds: a job may be unknown to the next one, or be started by it again
// beside the first.
func (c *Cluster) KillController() { c.end("slurmctld", syscall.SIGKILL) }

// StartNode starts a node's slurmd.
func (c *Cluster) StartNode(node string) {
	c.start(node, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "slurmd", "-D", "-N", node)
}

// Crash ends all that runs on a node at once, slurmd too.
func (c *Cluster) Crash(node string) { c.end(node, syscall.SIGKILL) }

// Run runs one of Slurm's commands on this cluster and returns what it printed.
func (c *Cluster) Run(command ...string) string {
	c.t.Helper()
	out, err := c.command(command).CombinedOutput()
	require.NoError(c.t, err, "%v: %s", command, out)
	return strings.TrimSpace(string(out))
}

// try is Run for what may fail: then it returns nothing.
func (c *Cluster) try(command ...string) string {
	out, _ := c.command(command).Output()
	return strings.TrimSpace(string(out))
}

func (c *Cluster) command(words []string) *exec.Cmd {
	command := exec.Command(words[0], words[1:]...)
	command.Env = append(os.Environ(), c.Environment()...)
	return command
}

// Await waits until something holds, and fails the test if it never does.
func (c *Cluster) Await(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(glance) {
		require.True(c.t, time.Now().Before(end), "there was no %s\n%s", what, c.logs())
	}
}

// start starts a daemon that ends with this process.
func (c *Cluster) start(name string, words ...string) {
	command := c.command(words)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(filepath.Join(c.directory, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	require.NoError(c.t, command.Start())
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.running[name] = command
}

func (c *Cluster) end(name string, signal syscall.Signal) {
	c.mutex.Lock()
	command := c.running[name]
	delete(c.running, name)
	c.mutex.Unlock()
	if command == nil {
		return
	}
	if err := command.Process.Signal(signal); err == nil || errors.Is(err, os.ErrProcessDone) {
		_ = command.Wait() // it was told to end, and says so
	}
}

func (c *Cluster) close() {
	for _, name := range append([]string{"slurmctld"}, append(Nodes, "munged")...) {
		c.end(name, syscall.SIGKILL)
	}
	if c.t.Failed() {
		c.t.Log(c.logs())
	}
}

func (c *Cluster) logs() string {
	var all strings.Builder
	for _, name := range append([]string{"slurmctld"}, Nodes...) {
		content, _ := os.ReadFile(filepath.Join(c.directory, name+".log"))
		lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
		lines = slices.DeleteFunc(lines, func(line []byte) bool { return bytes.Contains(line, []byte("pmi")) }) // Debian has no PMIx
		fmt.Fprintf(&all, "%s:\n  %s\n", name, bytes.Join(lines[max(0, len(lines)-8):], []byte("\n  ")))
	}
	return all.String()
}
