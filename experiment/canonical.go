package experiment

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
)

// experiment turns what was read into the canonical form, finding on the way what
// only the whole can tell.
func (r *reader) experiment(top *values) Experiment {
	r.refuseOtherKinds(top)
	e := Experiment{
		Format:              Format,
		Name:                get[string](top, "experimentName"),
		Concurrency:         int(get[int64](top, "trialConcurrency")),
		MaxTrials:           int(get[int64](top, "maxTrialNumber")),
		MaxDuration:         Seconds(get[int64](top, "maxExperimentDuration")),
		MaxTrialTime:        Seconds(get[int64](top, "maxTrialDuration")),
		Directory:           get[string](top, "experimentWorkingDirectory"),
		LogLevel:            logLevel(top),
		TrialModule:         get[string](top, "trialModule"),
		Tuner:               r.tuner(top),
		Assessor:            r.assessor(top),
		TunerGPUs:           get[[]int](top, "tunerGpuIndices"),
		AlgorithmTimeout:    Seconds(get[int64](top, "algorithmTimeout")),
		IncludeIntermediate: get[bool](top, "includeIntermediateResults"),
	}
	for _, service := range top.children("trainingService") {
		e.Platforms = append(e.Platforms, r.platform(service, top))
	}
	if shared := get[*values](top, "sharedStorage"); shared != nil {
		r.sharedStorage(shared, e.Platforms)
		e.SharedStorage = r.json(shared, nil)
	}
	r.checkpoints(top, e)
	e.SearchSpace = r.searchSpace(top, e.Tuner)
	return e
}

func logLevel(top *values) string {
	if get[bool](top, "debug") {
		return cmp.Or(get[string](top, "logLevel"), "debug")
	}
	return cmp.Or(get[string](top, "logLevel"), "info")
}

func (r *reader) refuseOtherKinds(top *values) {
	if get[string](top, "experimentType") == "nas" {
		r.fault(top.at("experimentType"), "architecture search is not supported", "hpo, hyperparameter optimisation, is")
	}
	if get[bool](top, "useAnnotation") {
		r.fault(top.at("useAnnotation"), "annotations are not supported, as in NNI 3.0",
			"write the search space into a file and name it in searchSpaceFile (v1: searchSpacePath)")
	}
}

// notOptions are the keys of a training service with a field of their own in
// Platform.
var notOptions = map[string]bool{
	"platform": true, "trialCommand": true, "trialCodeDirectory": true, "trialGpuNumber": true,
	"trialGracePeriod": true, "logLimit": true, "snapshot": true,
}

func (r *reader) platform(v, top *values) (made Platform) {
	copyDown(top, v)
	r.inBuild(v)
	r.ofPlatform(v.platform.name, func() { made = r.trial(v, top) })
	return made
}

// ofPlatform reads what belongs to a platform. Of one that this build does not have
// nothing is said but that.
func (r *reader) ofPlatform(name string, read func()) {
	faults, warnings := r.faults, r.warnings
	read()
	if !slices.Contains(r.build.Platforms, name) {
		r.faults, r.warnings = faults, warnings
	}
}

func (r *reader) trial(v, top *values) Platform {
	if check := v.platform.check; check != nil {
		check(r, v)
	}
	made := Platform{
		Name:          v.platform.name,
		Command:       r.command(v, top),
		CodeDirectory: r.codeDirectory(v),
		Grace:         gracePeriod,
		LogLimit:      logLimit,
		Snapshot:      get[bool](v, "snapshot"),
		Options:       r.json(v, notOptions),
	}
	if v.has("trialGracePeriod") {
		made.Grace = Seconds(get[int64](v, "trialGracePeriod"))
	}
	if v.has("logLimit") {
		made.LogLimit = get[int64](v, "logLimit")
	}
	if v.has("trialGpuNumber") {
		count := int(gpus(v))
		made.GPUs = &count
	}
	r.checkOptions(v, made.Options)
	r.checkTrial(v, made)
	return made
}

func copyDown(top, v *values) {
	for _, k := range trialKeys {
		if entry, ok := top.entries[k.name]; ok && !v.has(k.name) {
			v.entries[k.name] = entry
		}
	}
}

func (r *reader) inBuild(v *values) {
	if name := v.platform.name; !slices.Contains(r.build.Platforms, name) {
		r.fault(v.at("platform"), "platform "+name+" is not in this build", "this build has "+listed(r.build.Platforms))
	}
	if gpus(v) > 0 && !r.build.GPUs {
		r.fault(v.at("trialGpuNumber"), "giving GPUs to trials is not in this build", "leave it out, and every trial sees every GPU")
	}
}

func (r *reader) command(v, top *values) string {
	command := get[string](v, "trialCommand")
	switch {
	case v.platform.ownCommands:
	case !v.has("trialCommand") && r.converted:
		r.missing(v, "trialCommand")
	case !v.has("trialCommand"):
		r.missing(top, "trialCommand")
	case command == "" && v.entries["trialCommand"].value != nil:
		r.fault(v.at("trialCommand"), "must not be empty", "")
	}
	return command
}

func (r *reader) codeDirectory(v *values) string {
	directory := get[string](v, "trialCodeDirectory")
	switch {
	case v.platform.codeElsewhere:
		return directory
	case !v.has("trialCodeDirectory"):
		directory, _ = r.resolve(".") // fails only on ~
	case directory == "":
		return "" // a fault already
	}
	info, err := os.Stat(directory)
	hint := "it was looked for at " + directory
	switch node := v.at("trialCodeDirectory"); {
	case os.IsNotExist(err):
		r.fault(node, "there is no directory "+quoted(node.Value), hint)
	case err != nil:
		r.fault(node, "cannot be looked at: "+reason(err).Error(), hint)
	case !info.IsDir():
		r.fault(node, quoted(node.Value)+" is not a directory", hint)
	}
	return directory
}

// json is a section in canonical spelling, nil where nothing is set.
func (r *reader) json(v *values, omit map[string]bool) json.RawMessage {
	raw, err := v.json(omit)
	if err != nil {
		r.fault(v.node, err.Error(), "")
	}
	if string(raw) == "{}" {
		return nil
	}
	return raw
}
