package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"go.yaml.in/yaml/v3"
)

// Build says what this build of the program can run. Files may name whatever NNI
// knew; what is not here is a fault of its own. The zero Build can run nothing.
type Build struct {
	Tuners    []string // as TunerNames spells them
	Assessors []string // as AssessorNames spells them
	Platforms []string // as PlatformNames spells them
	GPUs      bool     // trialGpuNumber above 0

	// LookupEnv finds the variables that ${env:NAME} refers to. Nil leaves them
	// unchecked.
	LookupEnv func(name string) (string, bool)

	// CheckTuner tells whether a tuner takes these arguments (an object or nil)
	// for this search space. An error that is searchspace.Faults is shown in the
	// space. Nil checks nothing.
	CheckTuner func(name string, arguments, space json.RawMessage) error
	// CheckAssessor tells whether an assessor takes these arguments.
	CheckAssessor func(name string, arguments json.RawMessage) error
	// CheckAlgorithm tells whether a class of the user's, or an algorithm that has a
	// name and is none of Tuners or Assessors, can run in a process of its own. kind
	// is "tuner" or "assessor". An error may have a method Hint, with what would be
	// right, Argument, which tells whether it is about the arguments, and Stranger,
	// whether there is no algorithm of that name. Nil: none can run.
	CheckAlgorithm func(kind string, a Algorithm) error
	// TryAlgorithms starts the algorithms of an experiment that run in processes of
	// their own, as the experiment would, and ends them again. It is asked where
	// nothing else is wrong. Nil tries nothing.
	TryAlgorithms func(e Experiment) []TryFault
	// CheckPlatform returns all that a platform finds wrong with the rest of its
	// section, which is in canonical spelling. Nil checks nothing.
	CheckPlatform func(name string, options json.RawMessage) []OptionFault
	// CheckTrial returns what would keep trials of a platform from starting, and what
	// is worth a warning, such as a command or code that is not there. Nil checks
	// nothing.
	CheckTrial func(p Platform) (faults, warnings []OptionFault)
	// TryPlatform asks a platform's service whether trials could run. It is asked where
	// nothing else is wrong. Nil asks nobody.
	TryPlatform func(p Platform) (faults, warnings []OptionFault)
	// RunsHere tells whether a platform's trials run on this very machine. Nil: none
	// does.
	RunsHere func(platform string) bool
}

// elsewhere tells whether a platform's trials may run on another machine.
func (b Build) elsewhere(p Platform) bool { return b.RunsHere == nil || !b.RunsHere(p.Name) }

// TryFault is how an algorithm failed when it was tried.
type TryFault struct {
	Kind    string // "tuner" or "assessor"
	Message string
	Hint    string
}

// Loaded is an experiment file that is right.
type Loaded struct {
	Experiment Experiment
	Warnings   []Fault // what is accepted, but may not mean what its author thinks
	Path       string  // of the file, absolute
	Source     []byte  // its content
}

// Load reads and checks an experiment file. It looks at the files and directories
// that the experiment names, and at nothing else outside. The error is Faults and
// holds every fault there is; no secret of the file is in its text.
func Load(path string, build Build) (*Loaded, error) {
	content, err := ReadFile(path, maxYAML)
	if err != nil {
		return nil, Faults{{File: path, Message: err.Error(), Hint: hintFor(err)}}
	}
	return Parse(path, content, build)
}

var (
	errDirectory = errors.New("is a directory")
	errSilent    = errors.New("is a pipe that nobody writes to")
)

func hintFor(err error) string {
	switch {
	case errors.Is(err, errDirectory):
		return "name the experiment file in it"
	case errors.Is(err, errSilent):
		return "name a file, or a pipe whose writer has begun, such as <(command)"
	case errors.Is(err, os.ErrNotExist):
		return "`starter init` writes an experiment file to begin with"
	}
	return ""
}

// ReadFile reads at most a byte more than the limit, and does not wait for a writer
// where the file is a pipe. Its errors continue a sentence that begins with the file's
// name.
func ReadFile(path string, limit int64) ([]byte, error) {
	file, err := openAtOnce(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", reason(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		return nil, errDirectory
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", reason(err))
	}
	if len(content) == 0 && info != nil && info.Mode()&os.ModeNamedPipe != 0 {
		return nil, errSilent
	}
	return content, nil
}

// openAtOnce opens a file without waiting for somebody to write to a pipe.
func openAtOnce(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Parse is Load for content that stands, or would stand, at path.
func Parse(path string, content []byte, build Build) (*Loaded, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, Faults{{File: path, Message: "has no absolute path: " + err.Error()}}
	}
	r := &reader{document: newDocument(path, content), directory: filepath.Dir(absolute), build: build, tried: map[string]*yaml.Node{}}
	experiment := r.read()
	r.faults.take(r.document.faults)
	if r.faults.count == 0 {
		r.try(experiment)
	}
	if r.faults.count > 0 {
		return nil, Faults(r.faults.inOrder(path, "faults"))
	}
	return &Loaded{Experiment: experiment, Warnings: r.warnings.inOrder(path, "warnings"), Path: absolute, Source: content}, nil
}

// try finds out what only the platforms' services and the algorithms themselves can tell.
func (r *reader) try(e Experiment) {
	for _, ask := range r.services {
		ask()
	}
	if r.build.TryAlgorithms == nil || r.faults.count > 0 {
		return
	}
	for _, failed := range r.build.TryAlgorithms(e) {
		r.fault(r.tried[failed.Kind], failed.Message, failed.Hint)
	}
}

// read yields the experiment, which is only worth having where no fault is found.
func (r *reader) read() Experiment {
	root := r.document.root
	if root == nil {
		return Experiment{}
	}
	if root.Kind != yaml.MappingNode {
		r.fault(root, "an experiment file is a mapping of keys, not "+described(root), "begin with a line such as `trialConcurrency: 2`")
		return Experiment{}
	}
	if legacy(root) {
		r.converted = true
		if root = r.convert(root); root == nil {
			return Experiment{}
		}
	}
	r.references(root)
	return r.experiment(r.section(topLevel, root))
}
