package gpu

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Script is a POSIX shell script that prints what ParseReport reads: all that the
// driver's own tools and the kernel tell about a host's GPUs, in one go. It is run
// by `sh -c` or through sh's standard input, here or on a remote host.
//
//go:embed report.sh
var Script string

// TextPatience is how long Script may take: without persistence mode the first
// question wakes every GPU up.
const TextPatience = 20 * time.Second

// Text is the Prober that runs Script on this host.
type Text struct{}

// Probe implements Prober.
func (Text) Probe(ctx context.Context) (Inventory, error) {
	return probeBy(ctx, Script)
}

func probeBy(ctx context.Context, script string) (Inventory, error) {
	ctx, cancel := context.WithTimeout(ctx, TextPatience)
	defer cancel()
	command := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	command.WaitDelay = time.Second // nvidia-smi may hang with the pipe in its hand
	output, err := command.Output()
	if err != nil {
		return Inventory{}, fmt.Errorf("ask nvidia-smi and the kernel about GPUs: %w", errors.Join(err, ctx.Err()))
	}
	return ParseReport(output)
}

// section is a part of a report: what one question was answered.
type section struct {
	name   string
	status string // the exit code of who answered
	lines  []string
}

// text is what was said, on one line.
func (s section) text() string { return strings.Join(s.lines, " ") }

// ParseReport reads what Script printed. It is an error where the driver could not
// say what GPUs there are.
func ParseReport(report []byte) (Inventory, error) {
	sections, err := split(report)
	if err != nil {
		return Inventory{}, err
	}
	inventory := Inventory{Format: Format, Source: "nvidia-smi", None: "there is no nvidia-smi on PATH, and the kernel knows no AMD GPU"}
	if listed, asked := sections["gpus"]; asked {
		if err := parseNVIDIA(&inventory, listed[0], sections); err != nil {
			return Inventory{}, err
		}
	}
	// Beside GPUs of NVIDIA's an AMD one is mostly the processor's own.
	if len(inventory.GPUs) == 0 {
		parseAMDs(&inventory, sections["amd"])
	}
	nameUsers(inventory.GPUs, sections["users"][0])
	if len(inventory.GPUs) > 0 {
		inventory.None = ""
	}
	return inventory, nil
}

func split(report []byte) (map[string][]section, error) {
	sections, names := map[string][]section{}, []string{}
	for line := range bytes.Lines(report) {
		text := strings.TrimRight(string(line), "\r\n")
		if head, is := strings.CutPrefix(text, "== "); is {
			name, status, _ := strings.Cut(head, " ")
			sections[name] = append(sections[name], section{name: name, status: status})
			names = append(names, name)
		} else if len(names) > 0 && text != "" {
			// Whatever a login shell says comes before the first section.
			last := names[len(names)-1]
			s := &sections[last][len(sections[last])-1]
			s.lines = append(s.lines, text)
		}
	}
	if len(names) == 0 || names[len(names)-1] != "end" || len(sections["users"]) == 0 {
		return nil, fmt.Errorf("the report about GPUs is not whole: %.200q", report)
	}
	return sections, nil
}

// nameUsers adds what the host's process table says of processes.
func nameUsers(gpus []GPU, users section) {
	known := map[string][2]string{}
	for _, line := range users.lines {
		if fields := strings.SplitN(line, " ", 3); len(fields) == 3 {
			known[fields[0]] = [2]string{fields[1], fields[2]}
		}
	}
	for _, g := range gpus {
		for i, p := range g.Processes {
			if about, found := known[fmt.Sprint(p.PID)]; found {
				g.Processes[i].User, g.Processes[i].Name = about[0], cmp.Or(about[1], p.Name)
			}
		}
	}
}

// behindParents puts MIG devices behind their GPU.
func behindParents(gpus []GPU) {
	slices.SortStableFunc(gpus, func(a, b GPU) int { return a.Index - b.Index })
}
