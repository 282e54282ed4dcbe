package uaitrain

import (
	"fmt"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/platforms/internal/verbs"
)

// job is how UAI-Train tells of a job.
type job struct {
	ID      string `json:"TrainJobId"`
	Name    string `json:"TrainJobName"`
	Memo    string `json:"TrainJobMemo"`
	Status  string
	Created int64  `json:"CreateTime"`
	Started int64  `json:"StartTime"`
	Ended   int64  `json:"EndTime"`
	Price   int    `json:"BillTotalPrice"` // in hundredths
	Board   string `json:"LogTensorboardURL"`
	Output  string `json:"OutputUfilePath"`
}

// memoOf is the memo of the job of a run: by it the job is found, whatever people call
// it in the console.
func memoOf(name string) string { return "perennial run " + name }

// run is the name of the run that a job is for, empty where it is none of ours.
func (j job) run() string {
	name, ours := strings.CutPrefix(j.Memo, "perennial run ")
	if !ours {
		return ""
	}
	return name
}

// over tells whether a job is over for good.
func (j job) over() bool {
	switch j.Status {
	case "Done", "Stopped", "Deleted", "Error":
		return true
	}
	return false
}

// phase puts the service's word for how a job is into ours. Those of jobs that are
// neither over nor doing are not published: whether it has started decides.
func (j job) phase() string {
	switch {
	case j.over():
		return verbs.Gone
	case j.Status == "Doing" || j.Started > 0:
		return verbs.Running
	}
	return verbs.Waiting
}

// report is the job as package verbs has it.
func (j job) report(page string, s settings) verbs.Report {
	told := verbs.Report{Phase: j.phase(), URL: page, Host: j.where(s), TensorBoard: j.Board}
	switch told.Phase {
	case verbs.Waiting:
		told.Reason = verbs.Reason{Code: "queued", Text: "UAI-Train's job " + j.ID + " is " + strings.ToLower(j.Status) + ", on " + s.nodes()}
	case verbs.Gone:
		told.Reason = verbs.Reason{Code: "job-over", Text: "UAI-Train's job " + j.ID + " is " + strings.ToLower(j.Status) + ", and left no word of its trial's end"}
	}
	return told
}

// where is what a person sees as a run's host: the job, and what it has cost so far.
func (j job) where(s settings) string {
	text := j.ID + " on " + s.nodes()
	if j.Started == 0 {
		return text
	}
	until := time.Now().Unix()
	if j.Ended > 0 {
		until = j.Ended
	}
	if minutes := (until - j.Started) / 60; minutes > 0 {
		text += fmt.Sprintf(", %d min", minutes)
	}
	if j.Price > 0 {
		text += fmt.Sprintf(", %d.%02d CNY", j.Price/100, j.Price%100)
	}
	return text
}

func (s settings) nodes() string {
	if s.Nodes > 1 {
		return fmt.Sprintf("%d × %s", s.Nodes, s.NodeType)
	}
	return s.NodeType
}

// decides tells whether a job stands for its run rather than another of the same memo:
// which there is where the answer to a submission was lost, and lists were late. The
// trial runs in the first that starts, so one that runs is never given up for one that
// waits.
func (j job) decides(other job) bool {
	rank := map[string]int{verbs.Running: 2, verbs.Waiting: 1}
	mine, others := rank[j.phase()], rank[other.phase()]
	return mine > others || mine == others && (j.Created < other.Created || j.Created == other.Created && j.ID < other.ID)
}

// load is what a job runs, and on what.
type load struct{ command, input, output string }

// request is what UAI-Train is to run for a name.
func (c *client) request(from offer, name string, of load) map[string]any {
	hours := c.Hours
	if hours == 0 {
		hours = max(from.least, from.most)
	}
	return map[string]any{
		"TrainJobName": name, "TrainJobMemo": memoOf(name), "BusinessGroup": c.Group,
		"TrainWorkId": from.node, "TrainModeId": from.mode, "TrainWorkAmount": c.Nodes, "DistAIFrame": from.framework,
		"CodeUhubPath": c.Image, "DockerCmd": of.command, "MaxExecuteTime": hours, "PredictStartTime": 0,
		"DataUfilePath": of.input, "InputDataBackendId": from.backend,
		"OutputUfilePath": of.output, "OutputDataBackendId": from.backend,
		"TrainPublicKey": c.PublicKey, "TrainPrivateKey": c.PrivateKey,
	}
}
