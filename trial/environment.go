package trial

import "strconv"

// Variables of our own that every trial's process finds. NNI's stand beside
// them; see Environment.
const (
	// VarParameters names the file that holds the trial's parameters, one JSON object.
	VarParameters = "PERENNIAL_PARAMETERS"
	// VarAttempt is the attempt's number, from 1.
	VarAttempt = "PERENNIAL_ATTEMPT"
	// VarOutput names the directory whose content is kept with the trial.
	VarOutput = "PERENNIAL_OUTPUT_DIR"
	// VarRun tags every process of an attempt with Key.String, for the sweep.
	VarRun = "PERENNIAL_RUN"
	// VarModule tells our trial module what it is to do, a Module.
	VarModule = "PERENNIAL_TRIAL_MODULE"
)

// Module says when the module nni that a trial imports is ours.
type Module string

// The choices of trialModule. The zero Module is ModuleAuto.
const (
	ModuleAuto    Module = "auto"    // where the trial's Python has no nni
	ModuleBuiltin Module = "builtin" // whatever is installed
	ModuleOff     Module = "off"     // never: nothing is put into the environment
)

// Prefixes of the two lines of our own trial protocol, on standard output.
const (
	IntermediatePrefix = "perennial: intermediate "
	FinalPrefix        = "perennial: final "
)

// Directories are where an attempt's process lives, all absolute.
type Directories struct {
	System string // holds parameter.cfg, parameters.json and .nni/metrics
	Output string // kept with the trial; NNI writes trial.log into it
	Code   string // the working directory of the command
}

// ParametersFile is the name, in Directories.System, of the file that
// VarParameters points to; ParameterFile is NNI's.
const (
	ParametersFile = "parameters.json"
	ParameterFile  = "parameter.cfg"
)

// Environment returns the variables an attempt's process is given: the eight
// that every release of NNI's SDK reads, and ours. platform must be one of the
// names that NNI 1.9 knows ("local", "remote", …); others are refused by it.
func Environment(key Key, platform string, dirs Directories) map[string]string {
	return map[string]string{
		"NNI_PLATFORM":         platform,
		"NNI_EXP_ID":           key.Experiment,
		"NNI_TRIAL_JOB_ID":     key.TrialID(),
		"NNI_TRIAL_SEQ_ID":     strconv.Itoa(key.Sequence),
		"NNI_SYS_DIR":          dirs.System,
		"NNI_OUTPUT_DIR":       dirs.Output,
		"NNI_CODE_DIR":         dirs.Code,
		"MULTI_PHASE":          "false",
		"REUSE_MODE":           "false",
		"PERENNIAL_EXPERIMENT": key.Experiment,
		"PERENNIAL_TRIAL":      key.TrialID(),
		"PERENNIAL_SEQUENCE":   strconv.Itoa(key.Sequence),
		VarAttempt:             strconv.Itoa(key.Attempt),
		VarParameters:          dirs.System + "/" + ParametersFile,
		VarOutput:              dirs.Output,
		VarRun:                 key.String(),
	}
}
