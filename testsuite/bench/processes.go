package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is how many clock ticks /proc counts in a second, on every Linux.
const ticks = 100

// Usage is the processor time of a process and of those of its children that it
// has waited for.
type Usage struct{ Own, Children time.Duration }

// usageOf reads /proc; a process that is gone has used nothing.
func usageOf(pid int) Usage {
	fields := statOf(pid)
	if len(fields) < 15 {
		return Usage{}
	}
	read := func(field int) time.Duration {
		number, _ := strconv.Atoi(fields[field])
		return time.Duration(number) * time.Second / ticks
	}
	return Usage{Own: read(11) + read(12), Children: read(13) + read(14)}
}

// Minus is what was used since an earlier reading.
func (u Usage) Minus(earlier Usage) Usage {
	return Usage{u.Own - earlier.Own, u.Children - earlier.Children}
}

// statOf are the fields of /proc/PID/stat after the name.
func statOf(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
}

// residentMB is the resident memory of some processes.
func residentMB(pids ...int) (megabytes float64) {
	for _, pid := range pids {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(content))
		pages, _ := strconv.Atoi(fields[1])
		megabytes += float64(pages*os.Getpagesize()) / (1 << 20)
	}
	return megabytes
}

// find returns the processes whose command line has all of some words in it.
func find(words ...string) (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, entry := range entries {
		content, err := os.ReadFile(entry)
		line := strings.ReplaceAll(string(content), "\x00", " ")
		if err != nil || !containsAll(line, words) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		if err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func containsAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// environmentHas tells whether a process has a variable of this value.
func environmentHas(pid int, variable string) bool {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return bytes.Contains(append([]byte{0}, content...), []byte("\x00"+variable+"\x00"))
}

// descendants are the processes below one, not itself.
func descendants(of int) (pids []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	children := map[int][]int{}
	for _, entry := range entries {
		pid, _ := strconv.Atoi(filepath.Base(entry))
		if fields := statOf(pid); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	for next := children[of]; len(next) > 0; next = next[1:] {
		pids = append(pids, next[0])
		next = append(next, children[next[0]]...)
	}
	return pids
}

// uptime is the clock of the ledger.
func uptime() float64 {
	content, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(content), " ")
	number, _ := strconv.ParseFloat(seconds, 64)
	return number
}

// load is the load average of the last minute.
func load() float64 {
	content, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(content), " ")
	number, _ := strconv.ParseFloat(first, 64)
	return number
}

// machineBusy is the processor time of everything on the machine since its start.
func machineBusy() time.Duration {
	content, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(content), "\n")
	var sum int
	for i, field := range strings.Fields(line)[1:] {
		number, _ := strconv.Atoi(field)
		if i != 3 && i != 4 && i < 8 { // idle, waiting for disks, and what is in user time already
			sum += number
		}
	}
	return time.Duration(sum) * time.Second / ticks
}
