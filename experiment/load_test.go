package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perennial-ml/perennial/searchspace"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

const minimal = `trialConcurrency: 2
trialCommand: ./train.sh
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
tuner: {name: Random}
trainingService: {platform: local}
`

func parse(t *testing.T, content string) (*Loaded, error) {
	return Parse(filepath.Join(t.TempDir(), "experiment.yml"), []byte(content), everything())
}

func faultsOf(t *testing.T, err error) Faults {
	var faults Faults
	require.ErrorAs(t, err, &faults)
	return faults
}

func TestBothFilesOfTheAppendixMeanTheSameExperiment(t *testing.T) {
	first, err := Load("testdata/good/appendix-v1.yml", everything())
	require.NoError(t, err)
	second, err := Load("testdata/good/appendix-v2.yml", everything())
	require.NoError(t, err)
	require.Equal(t, first.Experiment, second.Experiment)
	require.Equal(t, []int{0, 2}, gpuIndices(t, first))
}

func gpuIndices(t *testing.T, loaded *Loaded) []int {
	var options struct{ GPUIndices []int }
	require.NoError(t, json.Unmarshal(loaded.Experiment.Platforms[0].Options, &options))
	return options.GPUIndices
}

func TestTheSearchSpaceFileIsKeptByteForByte(t *testing.T) {
	loaded, err := Load("testdata/good/appendix-v2.yml", everything())
	require.NoError(t, err)
	content, err := os.ReadFile("testdata/good/search_space.json")
	require.NoError(t, err)
	require.Equal(t, string(content), string(loaded.Experiment.SearchSpace))
}

func TestAnInlineSpaceKeepsItsOrderAndItsDigits(t *testing.T) {
	loaded, err := parse(t, strings.Replace(minimal, "{x: {_type: uniform, _value: [0, 1]}}",
		"{z: {_type: choice, _value: [5.0, 5, 1e-3, +1.50, 12345678901234567890, .5, 5.]}, a_B: {_type: choice, _value: [<x>]}}", 1))
	require.NoError(t, err)
	require.Equal(t,
		`{"z":{"_type":"choice","_value":[5.0,5,1e-3,1.50,12345678901234567890,0.5,5.0]},"a_B":{"_type":"choice","_value":["<x>"]}}`,
		string(loaded.Experiment.SearchSpace))
}

func TestDurationsAreWholeSecondsRoundedUp(t *testing.T) {
	for text, want := range map[string]Seconds{
		"3600": 3600, "1h": 3600, "1.5h": 5400, "0.5": 1, "0.1s": 1, `"90 s"`: 90, "7d": 604800, "999d": 86313600, "1.0001m": 61, "1:30": 90, "1e3": 1000,
	} {
		loaded, err := parse(t, minimal+"maxTrialDuration: "+text+"\n")
		require.NoError(t, err, text)
		require.Equal(t, want, loaded.Experiment.MaxTrialTime, text)
	}
	for _, text := range []string{"1w", "h", "1h30", "-1", "0", "1e99d", "[]", "true", ".inf"} {
		_, err := parse(t, minimal+"maxTrialDuration: "+text+"\n")
		require.ErrorContains(t, err, "maxTrialDuration: must be", text)
	}
}

func TestSizesCountInPowersOf1024(t *testing.T) {
	for text, want := range map[string]int64{"1": 1 << 20, "512kb": 512 << 10, "1.5GB": 3 << 29, "100b": 100, "1 tb": 1 << 40, "0.1b": 1} {
		loaded, err := parse(t, minimal+"logLimit: "+text+"\n")
		require.NoError(t, err, text)
		require.Equal(t, want, loaded.Experiment.Platforms[0].LogLimit, text)
	}
}

func TestUnsetIsNotZeroGPUs(t *testing.T) {
	unset, err := parse(t, minimal)
	require.NoError(t, err)
	require.Nil(t, unset.Experiment.Platforms[0].GPUs)
	zero, err := parse(t, minimal+"trialGpuNumber: 0\n")
	require.NoError(t, err)
	require.Equal(t, 0, *zero.Experiment.Platforms[0].GPUs)
}

func TestNullMeansUnset(t *testing.T) {
	loaded, err := parse(t, minimal+"trialCodeDirectory: null\nmaxTrialNumber: ~\nassessor:\n")
	require.NoError(t, err)
	require.Zero(t, loaded.Experiment.MaxTrials)
	require.Nil(t, loaded.Experiment.Assessor)
}

func TestPathsStartAtTheFileOrAtHome(t *testing.T) {
	home := must(filepath.EvalSymlinks(t.TempDir()))
	t.Setenv("HOME", home)
	loaded, err := parse(t, minimal+"trialCodeDirectory: ~\nexperimentWorkingDirectory: ~/runs\n")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, "runs"), loaded.Experiment.Directory)
	require.Equal(t, must(filepath.EvalSymlinks(filepath.Dir(loaded.Path))), loaded.Experiment.Platforms[0].CodeDirectory)
	loaded, err = parse(t, minimal+"trialCodeDirectory: '~'\n")
	require.NoError(t, err)
	require.Equal(t, home, loaded.Experiment.Platforms[0].CodeDirectory)
}

func TestTextThatYAML11ReadsOtherwiseIsWarnedAbout(t *testing.T) {
	loaded, err := parse(t, minimal+"experimentName: no\n")
	require.NoError(t, err)
	require.Equal(t, "no", loaded.Experiment.Name)
	require.Len(t, loaded.Warnings, 1)
	require.Equal(t, "experimentName", loaded.Warnings[0].Field)
}

func TestWhatCannotBeReadIsSaidSo(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "experiment.yml")
	_, err := Load(missing, everything())
	require.ErrorContains(t, err, missing+": cannot be read: no such file or directory")
	_, err = Load(t.TempDir(), everything())
	require.ErrorContains(t, err, "is a directory")
	_, err = Load("testdata/good/key/experiment.yml", everything())
	require.ErrorContains(t, err, "cannot be read: not a directory")
}

func TestASecretBehindAnAliasIsHiddenWhereItIsDefined(t *testing.T) {
	_, err := parse(t, minimal+"defined: &secret hunter2\nassessor: {name: hunter2, password: *secret}\n")
	require.Error(t, err)
	require.Contains(t, err.Error(), "defined: ***")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestHostileFilesAreRefusedInTime(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 8) + "*" + p + "]\n"
	}
	for name, content := range map[string]string{
		"nested too deeply":      strings.Repeat("[", 1_000_000),
		"is nested":              "a: " + strings.Repeat("[", 500) + strings.Repeat("]", 500),
		"aliases repeat":         bomb,
		"larger than":            strings.Repeat("# a comment\n", 500_000),
		"no such key":            strings.Repeat("k", 1000) + ": 1\n",
		"must be a whole number": "trialConcurrency: " + strings.Repeat("7", 1_000_000),
		"and ":                   manyKeys(),
		"is not text":            "\xff\xfe\x00",
		"is not YAML":            "a: b: c",
		"the tag \"!python\" is": minimal + "assessor: {name: Medianstop, classArgs: {a: !python x}}\n",
	} {
		_, err := parse(t, content)
		require.ErrorContains(t, err, name)
		require.Less(t, len(err.Error()), 200_000)
	}
}

func TestAFileCannotSteerTheTerminal(t *testing.T) {
	_, err := parse(t, minimal+`"\e[2J": 1`)
	require.ErrorContains(t, err, "[2J: no such key")
	require.NotContains(t, err.Error(), "\x1b")
}

func TestAV1SectionOfTheWrongTypeIsOneFault(t *testing.T) {
	_, err := parse(t, "trialConcurrency: 1\nsearchSpacePath: nowhere\ntrainingServicePlatform: local\ntuner: 5\ntrial: {command: c}\nlocalConfig: []\n")
	var fields []string
	for _, fault := range faultsOf(t, err) {
		fields = append(fields, fault.Field)
	}
	require.Equal(t, []string{"searchSpacePath", "tuner", "localConfig"}, fields)
}

func manyKeys() string {
	var keys strings.Builder
	for i := range 2000 {
		keys.WriteString(strings.Repeat("k", i%50+1) + string(rune('a'+i%26)) + strings.Repeat("z", i/50) + ": 1\n")
	}
	return keys.String()
}

func TestAPlatformThatIsNotInTheBuildIsOneFaultWhateverItsSectionSays(t *testing.T) {
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "space.json"), []byte(`{"x": {"_type": "uniform", "_value": [0, 1]}}`), 0o600))
	for _, content := range []string{
		"trialConcurrency: 1\ntrainingServicePlatform: pai\nsearchSpacePath: space.json\ntuner: {builtinTunerName: Random}\n" +
			"trial: {command: a, codeDir: nowhere, nniManagerNFSMountPath: /nowhere, what: 1}\npaiConfig: {userName: u, tokn: x}\n",
		"trialConcurrency: 1\nsearchSpaceFile: space.json\ntuner: {name: Random}\ntrialCommand: a\n" +
			"trainingService: {platform: openpai, hots: h, localStorageMountPoint: /nowhere}\n",
	} {
		_, err := Parse(filepath.Join(directory, "experiment.yml"), []byte(content), Build{Tuners: []string{"Random"}, Platforms: []string{"local"}})
		var faults Faults
		require.ErrorAs(t, err, &faults)
		require.Len(t, faults, 1, err.Error())
		require.Contains(t, faults[0].Message, "is not in this build")
	}
}

func TestTheTunerIsAskedAboutItsArgumentsAndTheSpace(t *testing.T) {
	build := everything()
	build.CheckTuner = func(name string, arguments, space json.RawMessage) error {
		require.Equal(t, "Random", name)
		require.JSONEq(t, `{"seed": "x"}`, string(arguments))
		require.Contains(t, string(space), "uniform")
		return errors.New("seed must be a whole number")
	}
	content := strings.Replace(minimal, "{name: Random}", "{name: random, classArgs: {seed: x}}", 1)
	_, err := Parse("experiment.yml", []byte(content), build)
	require.Equal(t, Fault{
		File: "experiment.yml", Line: 4, Column: 34, Field: "tuner.classArgs", Message: "seed must be a whole number",
		Source: "tuner: {name: random, classArgs: {seed: x}}", caret: 34,
	}, faultsOf(t, err)[0])

	build.CheckTuner = func(string, json.RawMessage, json.RawMessage) error {
		return searchspace.Faults{{Path: "/x/_value/1", Message: "is too much", Want: "less"}}
	}
	_, err = Parse("experiment.yml", []byte(content), build)
	require.Equal(t, "experiment.yml:3:47: searchSpace.x._value[1]: is too much", strings.Split(err.Error(), "\n")[0])
}

func TestNoSecretIsEverShown(t *testing.T) {
	directory := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		secret := "S3" + rapid.StringMatching(`[a-zA-Z0-9'"\\ :#]{6,20}`).Draw(t, "secret") + "x"
		quoted, err := json.Marshal(secret)
		require.NoError(t, err)
		key := rapid.SampledFrom([]string{"password", "passwrd", "ssh_passphrase", "Token", "accessKeySecret"}).Draw(t, "key")
		broken := rapid.SampledFrom([]string{"", "\n      x: [", "\n  y", "\n      " + key + ": 1"}).Draw(t, "broken")
		content := "trainingService:\n  platform: remote\n  machineList:\n    - host: [h]\n      " + key + ": " + string(quoted) + broken
		_, err = Parse(filepath.Join(directory, "experiment.yml"), []byte(content), everything())
		require.Error(t, err)
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, err.Error(), string(quoted))
	})
}

func TestNoDamageToAFileMakesThePackagePanic(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yml")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.SampledFrom(files).Draw(t, "file")
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := strings.Split(string(content), "\n")
		at := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		lines[at] = rapid.SampledFrom([]string{"", "- a", "trial: 5", "  {}", "tuner: []", lines[at] + " x", lines[at] + ": null", strings.ReplaceAll(lines[at], "{", "[")}).Draw(t, "damage")
		Parse(file, []byte(strings.Join(lines, "\n")), everything())
	})
}

func TestTheSchemaForEditorsAcceptsWhatLoadAccepts(t *testing.T) {
	schema := compiledSchema(t)
	for _, file := range []string{"appendix-v2", "fake"} {
		require.NoError(t, schema.Validate(generic(t, file)), file)
	}
	wrong := generic(t, "fake").(map[string]any)
	wrong["trialConcurrency"] = "2"
	require.Error(t, schema.Validate(wrong))
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	raw, err := Schema()
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("schema.json", document))
	schema, err := compiler.Compile("schema.json")
	require.NoError(t, err)
	return schema
}

// generic reads a file whose keys, but for a few, are in canonical spelling.
func generic(t *testing.T, name string) any {
	content, err := os.ReadFile("testdata/good/" + name + ".yml")
	require.NoError(t, err)
	content = bytes.ReplaceAll(content, []byte("training_service"), []byte("trainingService"))
	content = bytes.ReplaceAll(content, []byte("class_args"), []byte("classArgs"))
	var value any
	require.NoError(t, yaml.Unmarshal(content, &value))
	return value
}
