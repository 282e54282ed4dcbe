// Command up runs a laboratory's cluster: to try things by hand,
//
//	sudo make kube
//
// and as the process that a test's cluster lives in. Without flags it brings one
// up in the background and prints how to use it; -down takes that away.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/kube/supervisor"
)

func main() {
	role := flag.String("role", "", "set by the program itself")
	down := flag.Bool("down", false, "take away what was brought up in the background")
	python := flag.String("python", "", "interpreter of this machine that the image for trials has; empty: none")
	flag.Parse()
	var err error
	switch {
	case *role == "first":
		err = first()
	case *role == "supervisor":
		err = supervise(flag.Arg(0))
	case *down:
		err = kube.Down()
	default:
		err = up(*python)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// up leaves a cluster in the background.
func up(python string) error {
	if missing := kube.Missing(); missing != "" {
		return fmt.Errorf("%s", missing)
	}
	cluster, err := kube.Start(kube.InBackground)
	if err != nil {
		return err
	}
	if python != "" {
		if err := cluster.AddPython(python); err != nil {
			return err
		}
		fmt.Printf("export PERENNIAL_TEST_IMAGE=%s\n", kube.PythonImage)
	}
	fmt.Printf("export KUBECONFIG=%s\n", cluster.Kubeconfig)
	return nil
}

// first is the first process of the namespaces: it reaps what others leave, and
// when it ends nothing is left.
func first() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(program, "-role", "supervisor", flag.Arg(0))
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == command.Process.Pid || err == syscall.ECHILD {
			os.Exit(status.ExitStatus())
		}
	}
}

// supervise brings the cluster up, says so, and keeps it until standard input ends
// or somebody asks.
func supervise(description string) error {
	var site kube.Site
	if err := json.Unmarshal([]byte(description), &site); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s := supervisor.New(site, filepath.Dir(program))
	defer s.Stop()
	if err := s.Start(context.Background()); err != nil {
		return err
	}
	left := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(left) }()
	return s.Serve(func() { fmt.Println(kube.Ready) }, left)
}
