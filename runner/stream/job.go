package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/perennial-ml/perennial/runner/rundir"
)

const jobFormat = 1

// JobVariable holds the JSON of a Job where no file does. The command does not get
// it.
const JobVariable = "PERENNIAL_JOB"

// Job is what a container's runner is told, complete.
type Job struct {
	Format int `json:"format"`
	// Spec says what to run. Its Claim is the runner's own; where Directories are
	// empty, System and Output are the run's directory and Code is the container's
	// working directory.
	Spec rundir.Spec `json:"spec"`
	// Parameter and Parameters are the content of the trial's two parameter files.
	Parameter  []byte          `json:"parameter"`
	Parameters json.RawMessage `json:"parameters"`
	// MessageFile is where the termination message goes; empty: DefaultMessageFile.
	MessageFile string `json:"messageFile,omitempty"`
	// JournalElsewhere has the runner print the command's output alone: another
	// container prints the journal.
	JournalElsewhere bool `json:"journalElsewhere,omitempty"`
	// IntentFile is where the JSON of a trial.Intent appears when the run shall end;
	// empty or not there: not yet.
	IntentFile string `json:"intentFile,omitempty"`
}

// Encode returns the job as ReadJob reads it.
func (j Job) Encode() ([]byte, error) {
	j.Format, j.Spec.Format = jobFormat, rundir.Format
	return json.Marshal(j)
}

// ReadJob reads the job from a file, or from JobVariable where path is empty.
func ReadJob(path string) (Job, error) {
	text, err := []byte(os.Getenv(JobVariable)), error(nil)
	if path != "" {
		text, err = os.ReadFile(path)
	}
	if err == nil && len(text) == 0 {
		err = errors.New("there is no job: name its file, or put it into " + JobVariable)
	}
	if err != nil {
		return Job{}, err
	}
	var job Job
	if err := json.Unmarshal(text, &job); err != nil {
		return Job{}, fmt.Errorf("read the job: %w", err)
	}
	if job.Format < 1 || job.Format > jobFormat || job.Spec.Format > rundir.Format {
		return Job{}, fmt.Errorf("the job has format %d, this runner reads up to %d: use the runner of the starter that wrote it", job.Format, jobFormat)
	}
	return job, nil
}
