package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// interpreter returns the Python that "python3" or "python" means in an
// environment: that of the first directory of PATH that has either.
func interpreter(environment []string) (string, error) {
	for _, directory := range filepath.SplitList(lookup(environment, "PATH")) {
		for _, name := range []string{"python3", "python"} {
			path := filepath.Join(directory, name)
			if info, err := os.Stat(path); filepath.IsAbs(directory) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", &Fault{Message: "there is no python3 on PATH", Advice: "activate the environment that has nni, and run again", Unknown: true}
}

// lookup is the value of a variable, of which the last one counts.
func lookup(environment []string, name string) string {
	for _, variable := range slices.Backward(environment) {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}

// direct are the variables that keep Python from speaking to our server through its
// user's proxy.
var direct = []string{"NO_PROXY", "no_proxy"}

// environment is what NNI's dispatcher finds: its user's variables, and those that
// NNI's manager set.
func (s Spec) environment(channel string) []string {
	environment := slices.Clone(s.Home.Environment)
	for _, name := range direct {
		environment = append(environment, name+"="+strings.TrimPrefix(lookup(environment, name)+",localhost,127.0.0.1", ","))
	}
	return append(environment,
		"SDK_PROCESS=dispatcher",
		"NNI_MODE=start",
		"NNI_EXP_ID="+s.Experiment,
		"NNI_CHECKPOINT_DIRECTORY="+s.Home.Checkpoint,
		"NNI_LOG_DIRECTORY="+s.Home.Log,
		"NNI_LOG_LEVEL="+s.LogLevel,
		"NNI_INCLUDE_INTERMEDIATE_RESULTS=false", // the log's end of a trial has the value
		"NNI_TUNER_COMMAND_CHANNEL="+channel,
		"CUDA_VISIBLE_DEVICES="+s.visible(),
		fmt.Sprintf("PYTHONHASHSEED=%d", uint32(s.Seed)),
	)
}

// visible are the GPUs of the process; none where the file names none.
func (s Spec) visible() string {
	var indices []string
	for _, index := range s.GPUs {
		indices = append(indices, strconv.Itoa(index))
	}
	return strings.Join(indices, ",")
}
