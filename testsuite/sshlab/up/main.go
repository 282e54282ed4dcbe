// Up brings up a laboratory of SSH hosts to try things by hand, until it is
// interrupted:
//
//	sudo go run ./testsuite/sshlab/up -hosts 3 -latency 20ms
//
// It prints what reaches the hosts. Typed lines steer them: "cut host1",
// "heal host1", "reboot host1", "reinstall host1", "off host1", "on host1",
// "disconnect host1".
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func main() {
	hosts := flag.Int("hosts", 3, "how many")
	latency := flag.Duration("latency", 0, "of each host's link, each way")
	jump := flag.Bool("jump", false, "all but host0 are reached only through it")
	one := flag.Bool("one", false, "one sshd of the present user, without root")
	flag.Parse()
	lab, err := start(*hosts, *latency, *jump, *one)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	defer lab.Close()
	describe(lab)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go obey(lab)
	<-interrupted
}

func start(count int, latency time.Duration, jump, one bool) (*sshlab.Lab, error) {
	fail := func(err error) { fmt.Fprintln(os.Stderr, "error:", err) }
	if one {
		return sshlab.StartOne(fail, sshlab.Spec{Latency: latency})
	}
	if missing := sshlab.Missing(); missing != "" {
		return nil, fmt.Errorf("%s; -one works without", missing)
	}
	specs := make([]sshlab.Spec, count)
	for i := range specs {
		specs[i].Latency = latency
		if jump && i > 0 {
			specs[i].Behind = "host0"
		}
	}
	return sshlab.Start(fail, specs...)
}

func describe(lab *sshlab.Lab) {
	config := filepath.Join(lab.Home, ".ssh", "config")
	fmt.Printf("ssh -F %s host0\n\ntrainingService:\n  platform: remote\n  sshConfigFile: %s\n  machineList:\n", config, config)
	for _, h := range lab.Hosts {
		fmt.Printf("  - {host: %s, user: %s, sshKeyFile: %s}\n", h.Name, h.User, lab.KeyFile(sshlab.Key))
	}
}

func obey(lab *sshlab.Lab) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 2 || lab.Host(words[1]) == nil {
			fmt.Println("a verb and a host, please")
			continue
		}
		h := lab.Host(words[1])
		verbs := map[string]func(){"cut": h.Cut, "heal": h.Heal, "reboot": h.Reboot, "reinstall": h.Reinstall,
			"off": h.PowerOff, "on": h.PowerOn, "disconnect": h.Disconnect}
		if verb := verbs[words[0]]; verb != nil {
			verb()
			fmt.Println("done")
		}
	}
}
