package endtoend

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// clientOfNNI reads and updates an experiment by all that NNI's own client can, and
// says what it does not find as it should be.
const clientOfNNI = `
import json, sys, time
from nni.experiment import Experiment, rest
port, wanted = int(sys.argv[1]), sys.argv[2]
e = Experiment.connect(port)
assert e.id == wanted, e.id
assert e.get_status() == 'RUNNING', e.get_status()
jobs = e.list_trial_jobs()
running = [j.trialJobId for j in jobs if j.status == 'RUNNING']
assert len(running) == 2, jobs
assert e.get_trial_job(running[0]).hyperParameters[0].parameters['x'] is not None
assert {s['trialJobStatus']: s['trialJobNumber'] for s in e.get_job_statistics()}['RUNNING'] == 2
def reported():
    return e.get_job_metrics(running[0]).get(running[0], [])
while not reported():
    time.sleep(0.1)
assert reported()[0].type == 'PERIODICAL' and float(reported()[0].data) is not None, reported()
profile = e.get_experiment_profile()
assert profile['params']['trialConcurrency'] == 2 and profile['params']['searchSpace']['x']['_type'] == 'uniform', profile
assert profile['params']['trialCommand'], profile
assert e.get_all_experiments_metadata()[0]['id'] == wanted
assert e.export_data() == []
e.update_trial_concurrency(1)
e.update_max_trial_number(3)
e.update_search_space({'x': {'_type': 'uniform', '_value': [0, 0.5]}, 'n': {'_type': 'randint', '_value': [0, 3]}})
e.update_max_experiment_duration('2h')
def settled():
    p = e.get_experiment_profile()['params']
    return p['trialConcurrency'] == 1 and p['maxExperimentDuration'] == '7200s' and p['maxTrialNumber'] == 3 and p['searchSpace']['x']['_value'] == [0, 0.5]
while not settled():
    time.sleep(0.1)
for job in running:
    if hasattr(e, 'kill_trial_job'):
        e.kill_trial_job(job)
    else:
        rest.delete(port, '/trial-jobs/' + job)
while [j for j in e.list_trial_jobs() if j.trialJobId in running and j.status != 'USER_CANCELED']:
    time.sleep(0.1)
e._proc = None
`

func TestNNIsOwnClientReadsAndChangesAnExperiment(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"3.0", "2.10"} {
		h := NewHome(t)
		port := machine.FreePorts(t, 1)[0]
		h.Must("run", h.Experiment(endless(4, 2)), "--detach", "--port", fmt.Sprint(port), "--nni-open")
		id := h.only()
		h.AwaitRunning(id, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
		defer cancel()
		said, err := exec.CommandContext(ctx, machine.PythonWithNNI(t, version), "-c", clientOfNNI, fmt.Sprint(port), id).CombinedOutput()
		require.NoError(t, err, "NNI %s: %s", version, said)
		require.Equal(t, 3, *h.Show(id).Limits.MaxTrials)

		requireRefused(t, port, "Host", "rebound.example")
		requireRefused(t, port, "Sec-Fetch-Site", "cross-site")
		h.KillAndAwait(Host)
		h.Serve()
		h.Await("the next host serves it as well", func() bool {
			answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/api/v1/nni/check-status", port))
			return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
		})
		h.Must("stop", id)
		h.RequireNothingLeft()
	}
}

// requireRefused asks as a page of somebody else's would.
func requireRefused(t *testing.T, port int, header, value string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api/v1/nni/experiment", port), nil)
	require.NoError(t, err)
	request.Header.Set(header, value)
	if header == "Host" {
		request.Host = value
	}
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Contains(t, []int{http.StatusMisdirectedRequest, http.StatusForbidden}, answer.StatusCode)
}
