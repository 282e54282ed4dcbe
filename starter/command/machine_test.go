package command

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/trial"
)

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	s := newStage(t)
	var all strings.Builder
	each(s.root(), func(cmd *cobra.Command) {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		require.Equal(t, ExitDone, s.run(args...))
		require.Contains(t, s.out.String(), "\nExamples:\n", cmd.CommandPath())
		all.WriteString("=== " + cmd.CommandPath() + "\n" + s.out.String() + "\n")
	})
	golden(t, "help.txt", all.String())
}

// each visits a command and all below it that users see.
func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			each(below, visit)
		}
	}
}

func TestHelpOfACommandIsTheSameByEitherWord(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("run", "--help"))
	help := s.out.String()
	require.Equal(t, ExitDone, s.run("help", "run"))
	require.Equal(t, help, s.out.String())
}

func TestMistypedCommandsAndFlagsAreExplained(t *testing.T) {
	s := newStage(t)
	for name, args := range map[string][]string{"typo-command.txt": {"rum", "x.yml"}, "typo-flag.txt": {"ls", "--outptu", "json"},
		"bad-output.txt": {"ls", "--output", "xml"}, "run-without-file.txt": {"run"}, "follow-as-yaml.txt": {"run", "x.yml", "-o", "yaml"}} {
		require.Equal(t, ExitBadInput, s.run(args...), name)
		golden(t, name, s.err.String())
		require.Empty(t, s.out.String())
	}
}

func TestInitWritesAnExperimentThatIsValidAndOverwritesNothing(t *testing.T) {
	s := newStage(t)
	directory := filepath.Join(t.TempDir(), "new", "experiment")
	require.Equal(t, ExitDone, s.run("init", directory), s.err.String())
	require.Equal(t, ExitDone, s.run("validate", filepath.Join(directory, "experiment.yml")), s.err.String())
	require.Empty(t, s.err.String())
	written, err := os.ReadFile(filepath.Join(directory, "experiment.yml"))
	require.NoError(t, err)
	for _, name := range slices.Concat(s.World.Build.Tuners, s.World.Build.Assessors) {
		require.Regexp(t, "(?m)^#.*\\b"+name+"\\b", string(written), "what can be chosen is what this program has")
	}
	require.NotContains(t, string(written), "${")
	require.NoError(t, os.Remove(filepath.Join(directory, "experiment.yml")))
	require.Equal(t, ExitBadInput, s.run("init", directory))
	require.Contains(t, s.err.String(), "search_space.json is there already; nothing was written")
	require.NoFileExists(t, filepath.Join(directory, "experiment.yml"))
}

func TestValidateListsFaultsForEditors(t *testing.T) {
	s := newStage(t)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("experiment.yml", []byte(goodExperiment("echo")+"trialConcurency: 3\n"), 0o600))
	require.Equal(t, ExitBadInput, s.run("validate", "experiment.yml", "--output", "json"))
	golden(t, "validate-faults.json", s.out.String())
	require.Empty(t, s.err.String())
}

func TestServeStopEndsTheHostAndSaysSoWhereThereIsNone(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("serve", "--stop"))
	require.Equal(t, "the host has ended; trials go on, and the next host finds them\n", s.out.String())
	require.Equal(t, ExitDone, s.run("serve", "--stop"))
	require.Equal(t, "no host is running\n", s.out.String())
	require.Equal(t, ExitDone, s.run("serve", "--detach"))
	require.Equal(t, 1, s.started)
	require.Equal(t, ExitDone, s.run("serve", "--print-unit"))
	require.Equal(t, "[Service]\n", s.out.String())
}

func TestDoctorFindsWhatMustBeMended(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("doctor", "-o", "json"), s.out.String())
	var findings []finding
	require.NoError(t, json.Unmarshal([]byte(s.out.String()), &findings))
	require.Contains(t, findings, finding{Name: "platform fake", State: worth, Text: "only 3 MiB are free"})
	require.Contains(t, findings, finding{Name: "Temporal", State: fine, Text: "127.0.0.1:40001 answers"})
	s.accepted(anID)
	older, err := sql.Open("sqlite", RecordFile(s.World.Home))
	require.NoError(t, err)
	_, err = older.Exec(fmt.Sprintf("PRAGMA user_version = %d", record.Format-1))
	require.NoError(t, errors.Join(err, older.Close()))
	require.Equal(t, ExitDone, s.run("doctor"), s.out.String())
	require.Contains(t, s.out.String(), "mend: starter serve --detach")
	require.Equal(t, ExitBadInput, s.run("ls"))
	require.Contains(t, s.err.String(), "hint: starter serve --detach")

	require.NoError(t, os.WriteFile(RecordFile(s.World.Home), []byte(strings.Repeat("not a database ", 100)), 0o600))
	require.Equal(t, ExitNoSuccess, s.run("doctor"))
	require.Regexp(t, `(?m)^fail +record +.*the record is damaged`, s.out.String())
	require.Contains(t, s.out.String(), "mend: put a backup")
}

func TestVersionTellsWhichBuildThisIs(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("version"))
	require.Regexp(t, `^starter devel \(go1\.\d+`, s.out.String())
	version := s.out.String()
	require.Equal(t, ExitDone, s.run("--version"))
	require.Equal(t, version, s.out.String())
	require.Equal(t, ExitDone, s.run("version", "--output", "json"))
	require.Contains(t, s.out.String(), `"version": "devel"`)
}

func TestCompletionKnowsCommandsAndExperiments(t *testing.T) {
	s := newStage(t)
	s.accepted(anID)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Equal(t, ExitDone, s.run("completion", shell))
		require.Contains(t, s.out.String(), "starter")
	}
	require.Equal(t, ExitDone, s.run("__complete", "show", ""))
	require.Contains(t, s.out.String(), anID+"\tRUNNING demo\n")
}

func TestDoctorTriesTheMachinesThatAnExperimentNames(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "experiment.yml")
	require.NoError(t, os.WriteFile(file, []byte("searchSpace: {x: {_type: choice, _value: [1]}}\ntrialCommand: echo\n"+
		"trialConcurrency: 1\ntuner: {name: Random}\ntrainingService: {platform: remote, machineList: [{host: gpu1}]}\n"), 0o600))
	s.World.Build.Platforms = append(s.World.Build.Platforms, "remote")
	s.engine.machines = []platforms.HostState{{Name: "gpu1", Text: "64 cores"}}
	require.Equal(t, ExitDone, s.run("doctor", file), s.out.String())
	require.Regexp(t, `ok +machine gpu1 +64 cores`, s.out.String())
	s.engine.machines = []platforms.HostState{{Name: "gpu1", Problems: []trial.Reason{{Code: "cannot-reach", Text: "refuses the key"}}}}
	require.Equal(t, ExitNoSuccess, s.run("doctor", file))
	require.Regexp(t, `fail +machine gpu1 +refuses the key`, s.out.String())
	require.Equal(t, ExitBadInput, s.run("doctor", "/nonexistent.yml"))
}

func TestAServiceThatIsTriedFirstHasItsFaultsPlacedInTheFile(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "experiment.yml")
	require.NoError(t, os.WriteFile(file, []byte("searchSpace: {x: {_type: choice, _value: [1]}}\ntrialCommand: echo\n"+
		"trialConcurrency: 1\ntuner: {name: Random}\ntrainingService:\n  platform: kubernetes\n  image: a:1\n  namespace: nowhere\n"), 0o600))
	s.World.Build.Platforms = append(s.World.Build.Platforms, "kubernetes")
	s.World.Registry["kubernetes"] = platforms.Kind{Traits: platforms.Traits{TriedFirst: true}}
	s.engine.machines = []platforms.HostState{{Faults: platforms.OptionFaults{{Field: "namespace", Message: "the cluster has no such namespace"}}}}
	for _, command := range []string{"validate", "run"} {
		require.Equal(t, ExitBadInput, s.run(command, file))
		require.Contains(t, s.err.String(), file+":8:14: trainingService.namespace: the cluster has no such namespace")
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(content, "trialConcurency: 3\n"...), 0o600))
	require.Equal(t, ExitBadInput, s.run("validate", file))
	require.NotContains(t, s.err.String(), "no such namespace", "what is wrong anyhow is not tried")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	s.engine.machines = []platforms.HostState{{Problems: []trial.Reason{{Code: platforms.Unasked, Text: "nobody answers"}}}}
	require.Equal(t, ExitDone, s.run("validate", file))
	require.Contains(t, s.err.String(), "warning")
	require.Contains(t, s.err.String(), "nobody answers")
	s.engine.rights = map[string]string{"kubernetes": "kind: Role\n"}
	require.Equal(t, ExitDone, s.run("doctor", file, "--rbac"))
	require.Equal(t, "kind: Role\n", s.out.String())
	require.Equal(t, ExitBadInput, s.run("doctor", "--rbac"))
}

// attic is a cluster with what experiments have left.
type attic struct {
	left    platforms.Leftovers
	removed []string
	// meanwhile happens while it is listed; fault is why that fails.
	meanwhile func()
	fault     error
}

func (a *attic) Leftovers(context.Context) (platforms.Leftovers, error) {
	if a.meanwhile != nil {
		a.meanwhile()
	}
	return a.left, a.fault
}

func (a *attic) RemoveLeftover(_ context.Context, experiment string) error {
	a.removed = append(a.removed, experiment)
	return nil
}

func TestDoctorFindsWhatIsOnNoRecordAndRemovesOnlyWhatThisHomeMade(t *testing.T) {
	s := newStage(t)
	const known = "recorded"
	s.accepted(known)
	things := map[string]int{"Job": 1, "pod": 2}
	cluster := &attic{left: platforms.Leftovers{Place: "namespace ml", Unlisted: []string{"Secret"}, Found: []platforms.Leftover{
		{Experiment: known, Home: "old-name.aogzexlj", Things: things},
		{Experiment: "gone", Home: "old-name.aogzexlj", Things: things},
		{Experiment: "theirs", Home: "their-machine.bbbbbbbb", Things: things},
		{Experiment: "unmarked", Things: things},
	}}}
	s.engine.places = map[string]platforms.WithLeftovers{"fake": cluster}
	file := filepath.Join(t.TempDir(), "experiment.yml")
	require.NoError(t, os.WriteFile(file, []byte("searchSpace: {x: {_type: choice, _value: [1]}}\ntrialCommand: echo\n"+
		"trialConcurrency: 1\ntuner: {name: Random}\ntrainingService: {platform: fake}\n"), 0o600))
	require.Equal(t, ExitDone, s.run("doctor", file, "--leftovers"), s.err.String())
	require.NotContains(t, s.out.String(), known)
	for _, row := range []string{`gone +this home .*1 Job, 2 pod +namespace ml`, `theirs +another home: their-machine\.bbbbbbbb`, `unmarked +a home unknown`} {
		require.Regexp(t, row, s.out.String())
	}
	require.Contains(t, s.err.String(), "you may not list Secret there")
	require.Equal(t, ExitBadInput, s.run("doctor", file, "--leftovers", "--remove"), "nobody can be asked")
	require.Empty(t, cluster.removed)
	require.Equal(t, ExitDone, s.run("doctor", file, "--leftovers", "--remove", "--yes"), s.err.String())
	require.Equal(t, []string{"gone"}, cluster.removed)
	require.Equal(t, ExitBadInput, s.run("doctor", "--remove"))
	cluster.removed, cluster.meanwhile = nil, func() { s.accepted("gone") }
	require.Equal(t, ExitDone, s.run("doctor", file, "--leftovers", "--remove", "--yes"), s.err.String())
	require.Empty(t, cluster.removed, "it was begun while the cluster was asked")
	cluster.meanwhile, cluster.fault = nil, errors.New("nobody answers")
	require.Equal(t, ExitNoSuccess, s.run("doctor", file, "--leftovers"))
	require.Contains(t, s.err.String(), "nobody answers")
	cluster.fault = nil
	cluster.left.Found = cluster.left.Found[:1]
	require.Equal(t, ExitDone, s.run("doctor", file, "--leftovers", "--remove"))
	require.Contains(t, s.out.String(), "nothing is left")
}

func TestServeTellsTheProcessOfTheHost(t *testing.T) {
	s := newStage(t)
	require.Equal(t, ExitDone, s.run("serve", "--pid"))
	require.Equal(t, "4711\n", s.out.String())
	s.die()
	require.Equal(t, ExitUnreachable, s.run("serve", "--pid"))
	require.Empty(t, s.out.String())
}
