// Package rundir is the directory of one attempt: what lies in it, who may write
// it and when, for the runner that lives beside it and for the platforms that
// look at it from outside. Local disks and SSH hosts share this one protocol.
//
// The order of events is the protocol. The submitter writes Spec, takes the claim
// and hands it to the runner; the runner writes Process, starts the command, writes
// ExitRecord when that ended, ends what it left, and writes ExitRecord again, whole.
// So, read in the order claim, exit record, process:
//
//	claim held                           it lives: adopt it
//	claim free, exit record              it ended, and this is how
//	claim free, ExitRecord.Unread        it ended; what it left is ended by Reconcile
//	claim free, process, no exit record  lost: it never runs again
//	claim free, no process               half-made: the next Submit finishes it
//
// Whether somebody lives is asked of the kernel's lock only. Process ids are for
// people and for Sweep.
package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Format is the number in every file of this package. Newer ones are refused,
// older ones read.
const Format = 1

// Names of files in Run.Directory.
const (
	JobFile     = "job.json"     // Spec
	ClaimFile   = "claim"        // locked by whoever starts or runs the attempt
	ProcessFile = "process.json" // Process; there is one from before the command starts
	StartedFile = "started"      // a directory, made by the first of those that may run the attempt without a claim
	IntentFile  = "intent.json"  // trial.Intent, the first
	ExitFile    = "exit.json"    // ExitRecord
	JournalFile = "journal"      // the metrics, see package metrics
	ReserveFile = "reserve"      // disk blocks for the exit record, while the run lives
	RunnerLog   = "runner.log"   // what the runner says for people
	ContactFile = "contact"      // touched by whoever asks about the run, see Contact
	Stdout      = "stdout"       // of the command
	Stderr      = "stderr"       // of the command
	TrialLog    = "trial.log"    // NNI's SDK redirects Python's output here
	MetricsFile = ".nni/metrics" // below trial.Directories.System: NNI's frames
)

// ClaimDescriptor is the descriptor on which the runner receives the claim.
const ClaimDescriptor = 3

// Run is where one attempt lives.
type Run struct {
	Directory string // absolute
	// Claim is the path of the lock; empty: ClaimFile in Directory. It must lie on
	// a disk of this machine, which Directory need not.
	Claim string
}

// RunnerCommand is the command line that starts a run's runner, with the claim on
// ClaimDescriptor.
func RunnerCommand(runner string, run Run) []string {
	return []string{runner, "run", run.Directory}
}

// OnceCommand is the command line that runs a run on any machine that sees its
// directory, however often it is started.
func OnceCommand(runner string, run Run) []string {
	return []string{runner, "once", run.Directory}
}

// Path returns the absolute path of one of the package's files.
func (r Run) Path(name string) string { return filepath.Join(r.Directory, name) }

// MakeDirectory makes the attempt's directory, durably, if it is not there.
func (r Run) MakeDirectory() error { return MakeDirectory(r.Directory) }

type format struct {
	Format int `json:"format"`
}

var errBroken = errors.New("empty or broken record")

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var written format
	if json.Unmarshal(content, &written) != nil {
		return fmt.Errorf("%s: %w", path, errBroken)
	}
	if written.Format > Format {
		return fmt.Errorf("%s has format %d, this version reads up to %d: use a newer starter", path, written.Format, Format)
	}
	if err := json.Unmarshal(content, into); err != nil || written.Format == 0 {
		return fmt.Errorf("%s: %w", path, errBroken)
	}
	return nil
}

func writeJSON(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return WriteFile(path, append(content, '\n'), 0o600)
}
