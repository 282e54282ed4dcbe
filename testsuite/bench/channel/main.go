// Channel speaks the HTTP channel of NNI 3.0 for a trial that is a shell script:
// it asks for the parameters and reports 3 intermediate values and a final one.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := speak(os.Getenv("NNI_TRIAL_COMMAND_CHANNEL")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type message struct {
	Type      string `json:"type"`
	Metric    string `json:"metric,omitempty"`
	Parameter string `json:"parameter,omitempty"`
}

func speak(url string) error {
	if err := put(url, message{Type: "request_parameter"}); err != nil {
		return err
	}
	parameter, err := get(url)
	if err != nil {
		return err
	}
	var asked struct {
		ID json.RawMessage `json:"parameter_id"`
	}
	if err := json.Unmarshal([]byte(parameter), &asked); err != nil {
		return err
	}
	for step, value := range []string{"0.1", "0.2", "0.3", "0.4"} {
		kind, sequence := "PERIODICAL", step
		if step == 3 {
			kind, sequence = "FINAL", 0
		}
		metric := fmt.Sprintf(`{"parameter_id": %s, "trial_job_id": %q, "type": %q, "sequence": %d, "value": %q}`,
			asked.ID, os.Getenv("NNI_TRIAL_JOB_ID"), kind, sequence, value)
		if err := put(url, message{Type: "metric", Metric: metric}); err != nil {
			return err
		}
	}
	return nil
}

func put(url string, m message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPut, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	_, err = send(request)
	return err
}

func get(url string) (string, error) {
	for {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		m, err := send(request)
		if err != nil || m.Type == "parameter" {
			return m.Parameter, err
		}
	}
}

// send returns what came with status 200; the answer 408 means to ask again.
func send(request *http.Request) (m message, err error) {
	client := http.Client{Timeout: time.Minute}
	answer, err := client.Do(request)
	if err != nil {
		return m, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || request.Method == http.MethodPut || answer.StatusCode == http.StatusRequestTimeout {
		return m, err
	}
	if answer.StatusCode != http.StatusOK {
		return m, fmt.Errorf("%s: %s", answer.Status, text)
	}
	return m, json.Unmarshal(text, &m)
}
