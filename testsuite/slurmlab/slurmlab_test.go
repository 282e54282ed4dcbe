package slurmlab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJobsRunOnNodesThatCrashAndComeBack(t *testing.T) {
	t.Parallel()
	c := New(t)
	out := filepath.Join(c.Home, "out")
	job := c.submit(out, Main, "echo on $SLURMD_NODENAME with $CUDA_VISIBLE_DEVICES; sleep 600")
	c.Await("a running job", func() bool { return strings.HasPrefix(read(out), "on n") })
	node := c.Run("squeue", "-h", "-j", job, "-o", "%N")
	c.Crash(node)
	c.Await("an end by the node's failure", func() bool { return c.state(job) == "NODE_FAIL" })
	c.StartNode(node)
	c.Await("the node", func() bool { return c.Run("sinfo", "-h", "-n", node, "-p", Main, "-o", "%t") == "idle" })
}

func TestUrgentJobsTakeNodesAndAStoppedControllerForgetsNothing(t *testing.T) {
	t.Parallel()
	c := New(t)
	var jobs []string
	for range Nodes {
		jobs = append(jobs, c.submit("/dev/null", Main, "sleep 600", "--exclusive"))
	}
	c.Await("full nodes", func() bool { return c.state(jobs[0])+c.state(jobs[1]) == "RUNNINGRUNNING" })
	c.StopController()
	c.StartController()
	c.Await("full nodes again", func() bool { return c.state(jobs[0])+c.state(jobs[1]) == "RUNNINGRUNNING" })
	c.submit("/dev/null", Urgent, "sleep 600", "--exclusive")
	c.Await("a preempted job", func() bool { return strings.Contains(c.state(jobs[0])+c.state(jobs[1]), "PREEMPTED") })
}

// submit submits a shell script that is not to be started a second time.
func (c *Cluster) submit(out, partition, script string, more ...string) string {
	path := filepath.Join(c.t.TempDir(), "job")
	require.NoError(c.t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	words := append([]string{"sbatch", "--parsable", "--no-requeue", "--gres=gpu:1", "-p", partition, "-o", out}, more...)
	return c.Run(append(words, path)...)
}

func (c *Cluster) state(job string) string {
	return c.try("squeue", "-h", "-t", "all", "-j", job, "-o", "%T")
}

func read(path string) string {
	content, _ := os.ReadFile(path)
	return string(content)
}
