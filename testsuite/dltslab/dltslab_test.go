package dltslab

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (s *Service) ask(method, path, password, body string) (int, string) {
	request, err := http.NewRequest(method, s.URL+root+path+"?limit=10&email="+Email+"&password="+password, strings.NewReader(body))
	require.NoError(s.t, err)
	told, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer told.Body.Close()
	text, err := io.ReadAll(told.Body)
	require.NoError(s.t, err)
	return told.StatusCode, string(text)
}

const good = `{"jobId": "one", "jobName": "n", "team": "platform", "vcName": "platform", "gpuType": "V100", "resourcegpu": 0,
	"image": "i", "cmd": "exec sleep 60", "jobType": "training", "jobtrainingtype": "RegularJob"}`

// What a real dashboard with its RestfulAPI answered to the same.
func TestItAnswersAsARealServerDid(t *testing.T) {
	t.Parallel()
	s := New(t)
	jobs := "clusters/" + Cluster + "/jobs"
	for _, call := range []struct {
		method, path, password, body string
		status                       int
		says                         string
	}{
		{"POST", jobs, Password, good, 200, `"jobId":"one"`},
		{"POST", jobs, Password, good, 200, "Cannot add job into database."},
		{"POST", jobs, Password, `{"jobName": "n"}`, 400, "Bad Request"},
		{"POST", jobs, "bad", good, 403, ""},
		{"POST", "clusters/none/jobs", Password, good, 404, ""},
		{"GET", "teams/none/clusters/" + Cluster, Password, "", 404, ""},
		{"GET", "teams/" + Team + "/clusters/" + Cluster, Password, "", 200, `"metadata":"{\"V100\"`},
		{"GET", "v2/" + jobs + "/nobody", Password, "", 200, "{}"},
		{"GET", "v2/clusters/.default/jobs/one", Password, "", 200, `"jobStatus":"running"`},
		{"GET", "v2/clusters/.default/teams/platform/jobs", Password, "", 200, `"runningJobs":[{`},
		{"GET", jobs + "/one/log", Password, "", 404, ""},
		{"PUT", jobs + "/one/status", Password, `{"status":"killing"}`, 200, `"result":"Success`},
		{"PUT", jobs + "/one/status", Password, `{"status":"killing"}`, 200, "Cannot Kill the job"},
		{"PUT", jobs + "/nobody/status", Password, `{"status":"killing"}`, 200, "Cannot Kill the job"},
	} {
		status, said := s.ask(call.method, call.path, call.password, call.body)
		require.Equal(t, call.status, status, "%s %s", call.method, call.path)
		require.Contains(t, said, call.says, "%s %s", call.method, call.path)
	}
}
