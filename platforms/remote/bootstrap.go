package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/ssh"
)

// processors are the machines that runners are built for, by uname's names.
var processors = map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

// lookScript finds out what a machine is like and whether our directory is of use.
// It is fed to sh's standard input, since login shells may be csh or fish, and asks
// for nothing but POSIX: uname, mkdir, rm. $d is our directory.
const lookScript = `
echo "perennial look 1"
echo "system $(uname -s)"
echo "processor $(uname -m)"
echo "directory $d"
umask 077
if m=$(mkdir -p "$d/runner" 2>&1); then
  t="$d/runner/.probe.$$"
  m=$( (echo probe >"$t") 2>&1) || echo "fault $m"
  rm -f "$t"
else
  echo "fault $m"
fi
for f in "$d"/runner/perennial-runner-*; do
  if [ -x "$f" ]; then echo "runner $f"; fi
done
echo end
`

// bringCommand writes its standard input to a file, which appears whole or not at
// all; its hash is checked when it first runs.
const bringCommand = `exec sh -c 'umask 077; t="$1.$$.new"; cat >"$t" && [ "$(wc -c <"$t")" -eq "$2" ] && chmod 700 "$t" && mv -f "$t" "$1" || { rm -f "$t"; exit 1; }' sh `

// site is what was found on a machine.
type site struct {
	directory string
	binary    []byte // the runner for it
	sum       string
	present   bool // the runner is there
}

func (s site) runnerPath() string { return s.directory + "/runner/perennial-runner-" + s.sum[:16] }

// quote makes a word of any text, for sh, csh and fish alike.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// look finds out what the machine is like.
func (h *host) look(ctx context.Context, connection *ssh.Connection) (site, error) {
	output, err := connection.Run(ctx, "exec sh -s", strings.NewReader(h.directoryLine()+lookScript))
	_, answer, found := bytes.Cut(output, []byte("perennial look 1\n"))
	if !found {
		return site{}, h.mute(output, err)
	}
	facts := map[string][]string{}
	for line := range strings.Lines(string(answer)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		facts[name] = append(facts[name], value)
	}
	if len(facts["end"]) == 0 {
		return site{}, h.mute(output, err)
	}
	return h.judge(facts)
}

// directoryLine sets $d.
func (h *host) directoryLine() string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	directory := h.machine.Directory
	if directory == "" {
		directory = "~/.perennial"
	}
	if below, inHome := strings.CutPrefix(directory, "~/"); inHome {
		return `d=${HOME:-$(cd ~ && pwd)}/` + quote(below)
	}
	return "d=" + quote(directory)
}

// mute explains a machine that runs no script.
func (h *host) mute(output []byte, err error) error {
	var failed *ssh.Failure
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	said := strings.TrimSpace(string(bytes.ToValidUTF8(output[:min(len(output), 500)], []byte("?"))))
	if failed != nil {
		said = strings.TrimSpace(said + " " + failed.Said)
	}
	return unfit(h.address, "the login shell there does not run sh: it said %q", said)
}

// unfit is about a machine that a person must mend.
func unfit(address Address, format string, args ...any) error {
	return &ssh.Error{Kind: ssh.Wrong, Err: fmt.Errorf("%s: %w", address, fmt.Errorf(format, args...))}
}

func (h *host) judge(facts map[string][]string) (site, error) {
	first := func(name string) string { return append(facts[name], "")[0] }
	if faults := facts["fault"]; len(faults) > 0 {
		return site{}, fmt.Errorf("%s: %w", h.address, unwritable(strings.Join(faults, "; ")))
	}
	processor, known := processors[first("processor")]
	if first("system") != "Linux" || !known {
		return site{}, unfit(h.address, "it is %s on %s; trials run on Linux on %s", first("system"), first("processor"),
			strings.Join(slices.Sorted(maps.Keys(processors)), ", "))
	}
	binary, err := h.kind.Runner("linux", processor)
	if err != nil {
		return site{}, unfit(h.address, "%w", err)
	}
	found := site{directory: first("directory"), binary: binary, sum: sum(binary)}
	found.present = slices.Contains(facts["runner"], found.runnerPath())
	return found, nil
}

// unwritable explains what a machine said when something could not be written. Of a
// full disk it leaves out the file, which has another name each time.
func unwritable(said string) error {
	const otherwise = ", or name another place by the machine's key directory"
	switch {
	case strings.Contains(said, "No space left"), strings.Contains(said, "quota"):
		return platforms.Errorf(platforms.Exhausted, "connect", "the disk is full there: make room%s:%s",
			otherwise, said[strings.LastIndex(said, ":")+1:])
	case strings.Contains(said, "Read-only"):
		return errors.New("our directory there cannot be written, on a read-only file system: have that mounted for writing" + otherwise + ": " + said)
	}
	return errors.New("our directory there cannot be written: give this user the right to" + otherwise + ": " + said)
}

// bring uploads the runner.
func (s site) bring(ctx context.Context, connection *ssh.Connection) error {
	command := fmt.Sprintf("%s%s %d", bringCommand, quote(s.runnerPath()), len(s.binary))
	_, err := connection.Run(ctx, command, bytes.NewReader(s.binary))
	var failed *ssh.Failure
	if errors.As(err, &failed) {
		return fmt.Errorf("bring the runner: %w", unwritable(failed.Said))
	}
	return err
}
