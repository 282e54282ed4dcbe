// Package replay keeps histories of real workflows and replays them, so that a
// change of a decision that an old history took otherwise is noticed. Before a
// history is made anew, the change needs a version in the workflow's code:
// people's experiments were begun by the old one.
package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"
)

// Recorded is one run of a workflow.
type Recorded struct {
	Execution workflow.Execution
	History   *historypb.History
}

// file is the form of a kept history: gzip around JSON.
type file struct {
	WorkflowID string          `json:"workflowId"`
	RunID      string          `json:"runId"`
	History    json.RawMessage `json:"history"` // in the form of Temporal's own tools
}

// Write keeps a history.
func (r Recorded) Write(path string) error {
	history, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(r.History)
	if err != nil {
		return err
	}
	content, err := json.Marshal(file{r.Execution.ID, r.Execution.RunID, history})
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := writer.Write(content); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, packed.Bytes(), 0o644)
}

// Read reads a kept history.
func Read(path string) (Recorded, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return Recorded{}, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Recorded{}, err
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		return Recorded{}, err
	}
	var kept file
	if err := json.Unmarshal(content, &kept); err != nil {
		return Recorded{}, err
	}
	history, err := client.HistoryFromJSON(bytes.NewReader(kept.History), client.HistoryJSONOptions{})
	return Recorded{workflow.Execution{ID: kept.WorkflowID, RunID: kept.RunID}, history}, err
}
