package runner

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/perennial-ml/perennial/runner/trialmodule"
	"github.com/perennial-ml/perennial/trial"
)

// trialModule returns the variables by which the command's Python, if it has one,
// finds our trial module. It lies beside this program, once for all attempts, or
// in the attempt's directory where that cannot be written. A command that is no
// Python must not suffer from a full disk, so without a place it goes without.
func (a *attempt) trialModule(environment []string) map[string]string {
	mode := a.spec.TrialModule
	if mode == trial.ModuleOff {
		return nil
	}
	if mode == "" {
		mode = trial.ModuleAuto
	}
	directories := []string{a.run.Directory}
	if program, err := os.Executable(); err == nil {
		directories = []string{filepath.Dir(program), a.run.Directory}
	}
	entry, err := trialmodule.Install(directories...)
	if err != nil {
		a.log.say("the trial goes without our nni: %v", err)
		return nil
	}
	return trialmodule.Variables(mode, entry, valueOf(environment, trialmodule.PathVariable))
}

// valueOf returns the value of a variable, empty where there is none.
func valueOf(environment []string, name string) string {
	for _, variable := range environment {
		if value, found := strings.CutPrefix(variable, name+"="); found {
			return value
		}
	}
	return ""
}
