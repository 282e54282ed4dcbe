package bridge

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

func TestThePipesOfOldReleasesFrameByLengthInBytes(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	back, to, err := os.Pipe()
	require.NoError(t, err)
	p := newPipes(write, back)
	require.NoError(t, p.send(frame{"ME", `{"é":1}`}))
	require.NoError(t, p.send(frame{"TE", ""}))
	sent := make([]byte, 40)
	n, err := read.Read(sent)
	require.NoError(t, err)
	require.Equal(t, `ME00000000000008{"é":1}TE00000000000000`, string(sent[:n]))

	_, err = to.WriteString(`TR00000000000004{é}NO00000000000000what is this`)
	require.NoError(t, err)
	got, err := p.receive()
	require.NoError(t, err)
	require.Equal(t, frame{"TR", "{é}"}, got)
	got, err = p.receive()
	require.NoError(t, err)
	require.Equal(t, frame{"NO", ""}, got)
	require.NoError(t, to.Close())
	_, err = p.receive()
	require.Error(t, err)
}

func TestLengthsThatAreNoneAreNonsense(t *testing.T) {
	for _, header := range []string{"TRabcdefghijklmn", "TR99999999999999", "TR-0000000000001"} {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		_, err = write.WriteString(header)
		require.NoError(t, err)
		_, err = newPipes(write, read).receive()
		require.ErrorIs(t, err, errNonsense)
	}
}

func TestOnlyWhoKnowsThePathEntersAndOnlyOnce(t *testing.T) {
	d, err := openDoor()
	require.NoError(t, err)
	defer d.Close()
	require.Regexp(t, `^ws://127\.0\.0\.1:\d+/[A-Z2-7]{26}/tuner$`, d.url)
	address, _, _ := strings.Cut(strings.TrimPrefix(d.url, "ws://"), "/")
	_, response, err := websocket.DefaultDialer.Dial("ws://"+address+"/tuner", nil)
	require.Error(t, err)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	_, response, err = websocket.DefaultDialer.Dial(d.url, http.Header{"Origin": {"http://evil.example"}})
	require.Error(t, err, "a page in a browser")
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	first, _, err := websocket.DefaultDialer.Dial(d.url, nil)
	require.NoError(t, err)
	defer first.Close()
	second, _, err := websocket.DefaultDialer.Dial(d.url, nil)
	require.NoError(t, err)
	defer second.Close()
	_, _, err = second.ReadMessage()
	require.Error(t, err, "it was sent away")
}

func TestAClassFindsItsUsersEnvironmentAndNNIs(t *testing.T) {
	everyRelease(t, func(t *testing.T, python string) {
		e := begin(t, python, nil, class("Threshold", ""))
		e.process.Close()
		e.spec.Tuner, e.spec.Assessor, e.spec.GPUs = class("Surroundings", ""), nil, []int{1, 3}
		e.spec.Home.Environment = append(e.spec.Home.Environment, "MINE=yes")
		e.process = nil
		e.rebuild()
		require.JSONEq(t, `{"SDK_PROCESS": "dispatcher", "NNI_MODE": "start", "NNI_EXP_ID": "abcdefgh", "NNI_LOG_LEVEL": "info",
			"CUDA_VISIBLE_DEVICES": "1,3", "MINE": "yes", "NNI_INCLUDE_INTERMEDIATE_RESULTS": "false", "log": true, "checkpoint": true,
			"secrets": ["PERENNIAL_ALGORITHM"]}`, withoutOurs(e.ask()))
	})
}

// withoutOurs leaves out the variables by which these tests are told of Pythons.
func withoutOurs(parameters string) string {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		parameters = strings.ReplaceAll(strings.ReplaceAll(parameters, fmt.Sprintf("%q, ", name), ""), fmt.Sprintf(", %q", name), "")
	}
	return parameters
}

func TestAnAlgorithmOfNNIsThatWeLackProposesAndIsRebuilt(t *testing.T) {
	e := begin(t, pythonWithNNI(t, "3.0"), &Algorithm{Name: "Metis", Arguments: []byte(`{"cold_start_num": 100}`)}, nil)
	for n := range 5 {
		e.ask()
		e.end(n, trial.Succeeded, float64(n))
	}
	next := e.propose()
	require.Equal(t, tuners.Try, next.Answer)
	e.rebuild()
	require.Equal(t, next, e.propose())
}

func TestAnAlgorithmThatNNIWasToldOfRunsByItsName(t *testing.T) {
	python := pythonWithNNI(t, "3.0")
	e := begin(t, python, class("Climber", ""), nil)
	config := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(config, "registered_algorithms.yml"),
		[]byte("tuners:\n- {builtinName: Mine, className: users.Climber, source: user, classArgs: {step: 0}}\n"), 0o644))
	e.process.Close()
	e.process = nil
	e.spec.Home.Environment = append(e.spec.Home.Environment, "NNI_CONFIG_DIR="+config, "PYTHONPATH="+e.spec.Tuner.CodeDirectory)
	e.spec.Tuner = &Algorithm{Name: "Mine"}
	require.NoError(t, Check(t.Context(), "tuner", *e.spec.Tuner, e.spec.Home.Environment))
	e.rebuild()
	require.Contains(t, e.ask(), `"x": 0.5`)
}
