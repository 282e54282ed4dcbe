package uailab

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheSignatureIsThatOfUCloudsOwnExample(t *testing.T) {
	form := url.Values{}
	for name, value := range map[string]string{
		"Action": "CreateUHostInstance", "CPU": "2", "ChargeType": "Month", "DiskSpace": "10", "ImageId": "f43736e1-65a5-4bea-ad2e-8a46e18883c2",
		"LoginMode": "Password", "Memory": "2048", "Name": "Host01", "Password": "VUNsb3VkLmNu", "PublicKey": "ucloudsomeone@example.com1296235120854146120",
		"Quantity": "1", "Region": "cn-bj2", "Zone": "cn-bj2-04",
	} {
		form.Set(name, value)
	}
	require.Equal(t, "4f9ef5df2abab2c6fccd1e9515cb7e2df8c6bb65", signature(form, "46f09bb9fab4f12dfc160dae12273d5332b5debe"))
}

// ask calls the service as UCloud's tools do.
func ask(t *testing.T, s *Service, values map[string]string) map[string]any {
	form := url.Values{"PublicKey": {PublicKey}, "ProjectId": {Project}, "Region": {Region}, "Zone": {Zone}}
	for name, value := range values {
		form.Set(name, value)
	}
	if !form.Has("Signature") {
		form.Set("Signature", signature(form, PrivateKey))
	}
	answer, err := http.PostForm(s.URL, form)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	var told map[string]any
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&told))
	return told
}

// creation is a request for a job that sleeps.
func creation(more map[string]string) map[string]string {
	made := map[string]string{
		"Action": "CreateUAITrainJob", "TrainJobName": "a", "TrainJobMemo": "m", "TrainWorkId": "1860001", "CodeUhubPath": Image,
		"DataUfilePath": UFS + "/", "InputDataBackendId": "202", "OutputUfilePath": UFS + "/out/", "OutputDataBackendId": "202",
		"DockerCmd": "/data/output/sleep.py", "MaxExecuteTime": "6", "TrainWorkAmount": "1", "TrainModeId": "101", "DistAIFrame": "0",
		"TrainPublicKey": PublicKey, "TrainPrivateKey": PrivateKey,
	}
	for name, value := range more {
		made[name] = value
	}
	return made
}

func TestWhatIsWrongIsAnsweredWithTheRetCodeOfUCloudsTable(t *testing.T) {
	t.Parallel()
	s := New(t)
	for _, of := range []struct {
		asked map[string]string
		code  float64
	}{
		{map[string]string{"Action": "GetUAITrainJobList", "Signature": "wrong"}, 171},
		{map[string]string{"Action": "GetUAITrainJobList", "PublicKey": "nobody"}, 172},
		{map[string]string{"Action": "GetUAITrainJobList", "ProjectId": "org-theirs"}, 240},
		{map[string]string{"Action": "GetUAITrainJobList", "Zone": "cn-sh2-01"}, 230},
		{map[string]string{"Action": "GetUAITrainNothing"}, 161},
		{creation(map[string]string{"TrainWorkId": "7"}), 230},
		{creation(map[string]string{"MaxExecuteTime": "1"}), 230},
		{creation(map[string]string{"TrainModeId": "102", "TrainWorkAmount": "5", "DistAIFrame": "301"}), 230},
		{creation(map[string]string{"TrainModeId": "102", "TrainWorkAmount": "2", "DistAIFrame": "0"}), 230},
		{creation(map[string]string{"TrainModeId": "102", "TrainWorkAmount": "2", "DistAIFrame": "301", "OutputUfilePath": Bucket + "/out/", "OutputDataBackendId": "201"}), 230},
		{creation(map[string]string{"DockerCmd": "python /data/data/a.py"}), 230},
		{creation(map[string]string{"TrainPrivateKey": ""}), 230},
		{map[string]string{"Action": "StopUAITrainJob", "TrainJobId": "none"}, 8001},
		{map[string]string{"Action": "GetUAITrainJobList", "Offset": "3", "Limit": "2"}, 230},
	} {
		require.Equal(t, of.code, ask(t, s, of.asked)["RetCode"], of.asked)
	}
	require.Empty(t, s.States())
}

func TestAJobGoesThroughItsStatesAndIsRemovedOnlyOnceItIsOver(t *testing.T) {
	t.Parallel()
	s := New(t)
	require.NoError(t, receive(s.Here+"/out/sleep.py", strings.NewReader("import time; time.sleep(600)")))
	s.Slots = 1
	first := ask(t, s, creation(nil))["TrainJobId"].(string)
	second := ask(t, s, creation(nil))["TrainJobId"].(string)
	require.NotEqual(t, first, second, "the same request makes a second job")
	require.Equal(t, map[string]int{"Doing": 1, "Waiting": 1}, s.States())
	of := func(action, id string) float64 {
		return ask(t, s, map[string]string{"Action": action, "TrainJobId": id})["RetCode"].(float64)
	}
	require.NotZero(t, of("RemoveUAITrainJob", first))
	require.NotZero(t, of("RemoveUAITrainJob", second))
	require.NotZero(t, of("GetUAITrainTensorboardUrl", second), "only while it runs")
	require.Zero(t, of("GetUAITrainTensorboardUrl", first))
	require.Zero(t, of("StopUAITrainJob", second))
	require.Zero(t, of("StopUAITrainJob", first))
	require.Eventually(t, func() bool { return s.States()["Stopped"] == 2 }, time.Minute, 20*time.Millisecond)
	require.NotZero(t, of("StopUAITrainJob", first), "of a job that is over")
	require.Zero(t, of("RemoveUAITrainJob", first))
	require.Zero(t, of("RemoveUAITrainJob", second))
	require.Equal(t, "0", ask(t, s, map[string]string{"Action": "GetUAITrainJobList"})["TotalCount"])
}

func TestABucketIsReadByNobodyWithoutASignature(t *testing.T) {
	t.Parallel()
	s := New(t)
	require.NoError(t, receive(s.Objects+"/secret.txt", strings.NewReader("hush")))
	answer, err := http.Get(s.Address + "/secret.txt")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	said, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NotContains(t, string(said), "hush")
}
