package sshlab

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The network of lab n: this machine is 10.213.n.1 and speaks to a router at
// 10.213.n.2, which has a link to every host, 10.213.n.10 and up. The router is a
// namespace of its own, so its rules meet no others, and it vanishes with all its
// links when the process in it ends.

func (l *Lab) address(last int) string { return fmt.Sprintf("10.213.%d.%d", l.slot.Number, last) }

func (l *Lab) uplink() string { return fmt.Sprintf("plab%d", l.slot.Number) }

func (l *Lab) startRouter() error {
	command := exec.Command("sleep", "infinity")
	if err := l.spawner.start(command, syscall.CLONE_NEWNET); err != nil {
		return err
	}
	go func() { _ = command.Wait() }()
	l.router = command.Process.Pid
	here, there, link := l.address(1), l.address(2), l.uplink()
	// The link of a lab that was just killed may still be on its way out.
	_ = run("ip", "link", "del", link)
	if err := run("ip", "link", "add", link, "type", "veth", "peer", "name", "uplink", "netns", strconv.Itoa(l.router)); err != nil {
		return err
	}
	if err := l.onRouter(fmt.Sprintf(`echo 1 > /proc/sys/net/ipv4/ip_forward
		ip link set lo up; ip addr add %s peer %s dev uplink; ip link set uplink up`, there, here)); err != nil {
		return err
	}
	return inNetwork(0, fmt.Sprintf(`ip addr add %s peer %s dev %s; ip link set %s up; ip route add %s/24 via %s dev %s`,
		here, there, link, link, l.address(0), there, link))
}

// inNetwork runs a script in the network of a process; 0 is this machine's.
func inNetwork(pid int, script string) error {
	if pid == 0 {
		return run("sh", "-ec", script)
	}
	return run("nsenter", "--net=/proc/"+strconv.Itoa(pid)+"/ns/net", "sh", "-ec", script)
}

func (l *Lab) onRouter(script string) error { return inNetwork(l.router, script) }

// wire gives the host, whose namespaces are new, its link to the router.
func (h *Host) wire() error {
	gateway := h.lab.address(2)
	if err := h.lab.onRouter(fmt.Sprintf(`ip link del %[1]s 2>/dev/null || true
		ip link add %[1]s type veth peer name eth0 netns %[2]d
		ip addr add %[3]s peer %[4]s dev %[1]s; ip link set %[1]s up`, h.Name, h.init, gateway, h.address)); err != nil {
		return err
	}
	return inNetwork(h.init, fmt.Sprintf(`ip link set lo up; ip addr add %s peer %s dev eth0
		ip link set eth0 up; ip route add default via %s`, h.address, gateway, gateway))
}

// A rule that says blackhole loses packets without a word to anybody.
func (h *Host) rule(verb, of string) error {
	return h.lab.onRouter(fmt.Sprintf("ip rule %s %s blackhole", verb, of))
}

func (h *Host) hide() error { return h.rule("add", "iif uplink to "+h.address) }

// Cut loses every packet to and from the host from now on, silently.
func (h *Host) Cut() {
	h.lab.must(errors.Join(h.rule("add", "to "+h.address), h.rule("add", "iif "+h.Name)))
}

// Heal ends a Cut.
func (h *Host) Heal() {
	h.lab.must(errors.Join(h.rule("del", "to "+h.address), h.rule("del", "iif "+h.Name)))
}

// awaitListening waits until somebody listens on the host's port.
func (h *Host) awaitListening() error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(glance) {
		select {
		case <-h.ended:
			return fmt.Errorf("%s ended at its start: %s", h.Name, h.logTail())
		default:
		}
		content, _ := readProc(h.init, "net/tcp")
		// Columns: number, local address, remote address, state; 0A is LISTEN.
		if strings.Contains(content, fmt.Sprintf(":%04X 00000000:0000 0A", h.port)) {
			return nil
		}
	}
	return fmt.Errorf("%s does not listen: %s", h.Name, h.logTail())
}
