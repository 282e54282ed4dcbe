package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/perennial-ml/perennial/codedir"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/experiment/secrets"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/spf13/cobra"
)

const validateHelp = `validate reads an experiment and all it names, and reports everything that is
wrong at once, each with its place. A tuner or assessor that runs in a process of
its own is started, made with its arguments and the search space, asked for one
proposal and ended again. Where the file names a cluster of Kubernetes, that is asked
whether it has what trials need, as doctor does. Nothing else is started, and nothing
is written.

Exit codes: 0 it can run; 2 it cannot.`

func (w World) validateCommand() *cobra.Command {
	var as *format
	cmd := &cobra.Command{
		Use: "validate FILE", Short: "Check an experiment without starting it", Long: validateHelp,
		Example: examples("starter validate experiment.yml", "starter validate experiment.yml --output json"),
		Args:    between(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := w.loadTried(cmd.Context(), args[0])
			var faults experiment.Faults
			if errors.As(err, &faults) && *as != asTable {
				return errors.Join(w.print(*as, viewed(faults), nil), exit(ExitBadInput))
			}
			if err != nil {
				return err
			}
			if err := secrets.Redact(&config); err != nil {
				return err
			}
			return w.print(*as, config, func() [][]string { return w.summary(args[0], config) })
		},
	}
	as = outputFlag(cmd)
	return cmd
}

// faultView is a fault as editors read it.
type faultView struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // from 1; 0 where the fault has no place
	Column  int    `json:"column"` // from 1, in characters
	Field   string `json:"field"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

func viewed(faults experiment.Faults) []faultView {
	views := make([]faultView, 0, len(faults))
	for _, f := range faults {
		views = append(views, faultView{f.File, f.Line, f.Column, f.Field, f.Message, f.Hint})
	}
	return views
}

func (w World) summary(file string, e experiment.Experiment) [][]string {
	rows := [][]string{{file, "can run"}, {"tuner", e.Tuner.String()}}
	if e.Assessor != nil {
		rows = append(rows, []string{"assessor", e.Assessor.String()})
	}
	rows = append(rows, []string{"trials", limit(e.MaxTrials) + ", " + fmt.Sprint(e.Concurrency) + " at a time"})
	for _, platform := range e.Platforms {
		rows = append(rows, []string{"platform", platform.Name}, []string{"command", platform.Command},
			[]string{"in", platform.CodeDirectory})
	}
	return rows
}

func limit(n int) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprint(n)
}

// load reads an experiment and checks what a file alone cannot tell.
func (w World) load(file string) (experiment.Experiment, error) {
	return w.loadBy(file, nil)
}

// loadTried asks those services too that can tell in seconds whether trials could run.
func (w World) loadTried(ctx context.Context, file string) (experiment.Experiment, error) {
	return w.loadBy(file, func(platform experiment.Platform) (faults, warnings []experiment.OptionFault) {
		if !w.Registry[platform.Name].Traits.TriedFirst {
			return nil, nil
		}
		return w.checkService(ctx, platform)
	})
}

// checkService has a platform's service tried. That it cannot be asked at present is
// worth a warning, since trials would wait for it too.
func (w World) checkService(ctx context.Context, platform experiment.Platform) (faults, warnings []experiment.OptionFault) {
	states, err := w.Engine.Try(ctx, platform)
	if err != nil {
		fault := experiment.OptionFault{Message: err.Error()}
		var silent *platforms.Error
		if errors.As(err, &silent) && (silent.Code == platforms.Transient || silent.Code == platforms.Exhausted) {
			fault.Hint = "trials wait until it answers"
			return nil, []experiment.OptionFault{fault}
		}
		return []experiment.OptionFault{fault}, nil
	}
	for _, state := range states {
		for _, fault := range state.Faults {
			faults = append(faults, experiment.OptionFault(fault))
		}
		for _, problem := range state.Problems {
			if problem.Code == platforms.Unasked {
				warnings = append(warnings, experiment.OptionFault{Message: problem.Text, Hint: "trials wait until it can be reached"})
				continue
			}
			faults = append(faults, experiment.OptionFault{Message: problem.Text})
		}
	}
	return faults, warnings
}

func (w World) loadBy(file string, try func(experiment.Platform) (faults, warnings []experiment.OptionFault)) (experiment.Experiment, error) {
	build := w.Build
	build.LookupEnv, build.CheckTrial, build.TryPlatform = w.LookupEnv, w.checkTrial, try
	loaded, err := w.readExperiment(file, build)
	if err != nil {
		return experiment.Experiment{}, explainLoad(err)
	}
	for _, warning := range loaded.Warnings {
		fmt.Fprintf(w.Err, "warning: %s\n", warning)
	}
	return loaded.Experiment, nil
}

// readExperiment reads a file, or standard input where that is "-", as if it were a file in
// the working directory.
func (w World) readExperiment(file string, build experiment.Build) (*experiment.Loaded, error) {
	if w.given != nil {
		return experiment.Parse(w.given.name, w.given.text, build)
	}
	if file != "-" {
		return experiment.Load(file, build)
	}
	content, err := io.ReadAll(w.In)
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return experiment.Parse("standard input", content, build)
}

func explainLoad(err error) error {
	hint := "nothing was started"
	var faults experiment.Faults
	if errors.As(err, &faults) && len(faults) > 1 {
		hint = fmt.Sprintf("%d faults; nothing was started", faults.Count())
	}
	return badInput(hint, "%w", err)
}

// checkTrial looks for what a trial begins with, and whether its code can be copied
// where it will be.
func (w World) checkTrial(platform experiment.Platform) (faults, warnings []experiment.OptionFault) {
	faults = append(faults, w.checkCommand(platform)...)
	refused, followed := w.checkCode(platform)
	return append(faults, refused...), append(w.checkScript(platform), followed...)
}

// checkCommand looks for the program that a local command begins with. Where the
// command begins with more than a plain word, only the shell can tell.
func (w World) checkCommand(platform experiment.Platform) []experiment.OptionFault {
	word := firstWord(platform.Command)
	if !w.Registry[platform.Name].Traits.RunsHere || word == "" || shellKnows[word] || w.executable(word, platform.CodeDirectory) {
		return nil
	}
	return []experiment.OptionFault{{Field: "trialCommand", Message: fmt.Sprintf("command not found: %q", word),
		Hint: "install it, activate its environment, or correct it; relative paths begin at " + platform.CodeDirectory}}
}

// checkCode looks whether code that will be copied is small enough for that, and
// says what will be copied with it.
func (w World) checkCode(platform experiment.Platform) (faults, warnings []experiment.OptionFault) {
	if !platform.Snapshot && !w.Registry[platform.Name].Traits.CopiesCode {
		return nil, nil
	}
	tree, err := codedir.Scan(platform.CodeDirectory, codedir.DefaultLimits())
	if err != nil {
		return []experiment.OptionFault{{Field: "trialCodeDirectory", Message: err.Error()}}, nil
	}
	for _, link := range tree.Followed() {
		warnings = append(warnings, experiment.OptionFault{Field: "trialCodeDirectory",
			Message: fmt.Sprintf("the link %s: what is there will be copied", link), Hint: "where that is not meant, exclude it in .nniignore"})
	}
	return nil, warnings
}

// checkScript looks for the script that an interpreter is given. Something may still
// make it before a trial starts.
func (w World) checkScript(platform experiment.Platform) []experiment.OptionFault {
	script, traits := scriptOf(platform.Command), w.Registry[platform.Name].Traits
	if !traits.RunsHere && !traits.CopiesCode { // the code is not on this machine
		return nil
	}
	if script == "" || filepath.IsAbs(script) && !traits.RunsHere {
		return nil
	}
	path := script
	if !filepath.IsAbs(path) {
		path = filepath.Join(platform.CodeDirectory, script)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		return nil
	}
	return []experiment.OptionFault{{Field: "trialCommand", Message: fmt.Sprintf("there is no script %q", script),
		Hint: "it was looked for at " + path}}
}

// interpreters are programs whose first argument that is no option is a file.
var interpreters = regexp.MustCompile(`^(?:.*/)?(?:python[0-9.]*|pypy[0-9.]*|sh|bash|dash|zsh|Rscript|julia|perl|ruby|node)$`)

// scriptOf is the script that a command runs, empty where that is not plain to see.
func scriptOf(command string) string {
	words := strings.Fields(command)
	if len(words) == 0 || !interpreters.MatchString(firstWord(command)) {
		return ""
	}
	for _, word := range words[1:] {
		switch {
		case firstWord(word) != word:
			return ""
		case bareOptions[word]:
		case strings.HasPrefix(word, "-"):
			return ""
		default:
			return word
		}
	}
	return ""
}

// bareOptions take no word of their own and leave a script to follow.
var bareOptions = map[string]bool{"-u": true, "-O": true, "-OO": true, "-B": true, "-E": true, "-s": true, "-S": true, "-I": true, "-e": true, "-x": true, "-ex": true, "-eu": true}

// shellKnows are words that are no programs, or need not be.
var shellKnows = map[string]bool{
	".": true, ":": true, "[": true, "alias": true, "break": true, "case": true, "cd": true, "command": true,
	"continue": true, "echo": true, "eval": true, "exec": true, "exit": true, "export": true, "false": true,
	"for": true, "if": true, "local": true, "printf": true, "read": true, "return": true, "set": true,
	"shift": true, "shopt": true, "source": true, "test": true, "time": true, "times": true, "trap": true,
	"true": true, "type": true, "ulimit": true, "umask": true, "unalias": true, "unset": true, "until": true,
	"wait": true, "while": true, "function": true, "select": true, "declare": true, "let": true, "pushd": true,
}

// firstWord is the program a shell command begins with, empty where that is not
// a plain word.
func firstWord(command string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	word = strings.TrimRight(word, ";&|")
	if strings.ContainsAny(word, "$`'\"\\(){}<>*?=~!#&|;\t\n") {
		return ""
	}
	return word
}

func (w World) executable(word, directory string) bool {
	if strings.Contains(word, "/") {
		if !filepath.IsAbs(word) {
			word = filepath.Join(directory, word)
		}
		return runnable(word)
	}
	for _, folder := range filepath.SplitList(w.Getenv("PATH")) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(directory, folder)
		}
		if runnable(filepath.Join(folder, word)) {
			return true
		}
	}
	return false
}

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}
