package experiment

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NNI's algorithms by the names that 2.x and 3.0 give them, and ours; names ignore case.
var (
	tunerNames = []string{
		"Random", "GridSearch", "TPE", "TPE_legacy", "Anneal", "Evolution", "Batch", "SMAC", "Metis", "GP", "PBT",
		"DNGO", "PPO", "RegularizedEvolution", "Hyperband", "BOHB",
		"ASHA", "CMAES",
	}
	assessorNames = []string{"Medianstop", "Curvefitting", "ASHA"}

	// otherNames are 1.9's spellings, and another of ours.
	otherNames = map[string]string{
		"batchtuner": "Batch", "metistuner": "Metis", "gptuner": "GP", "pbttuner": "PBT", "dngotuner": "DNGO",
		"ppotuner": "PPO", "regularizedevolutiontuner": "RegularizedEvolution",
		"cma-es": "CMAES",
	}
)

// TunerNames returns every tuner and advisor that files may name, as NNI spells it.
func TunerNames() []string { return slices.Clone(tunerNames) }

// AssessorNames returns every assessor that files may name, as NNI spells it.
func AssessorNames() []string { return slices.Clone(assessorNames) }

func canonicalName(written string, names []string) string {
	if name := otherNames[strings.ToLower(written)]; slices.Contains(names, name) {
		return name
	}
	i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, written) })
	if i < 0 {
		return ""
	}
	return names[i]
}

// purpose is what an algorithm is for, with the names it may have and those of this build.
type purpose struct {
	word  string
	names []string
	built []string
	check func(name string, arguments json.RawMessage) error
}

// kind is "tuner" or "assessor": advisors are tuners.
func (p purpose) kind() string {
	if p.word == "assessor" {
		return "assessor"
	}
	return "tuner"
}

func (r *reader) tuner(top *values) Algorithm {
	section, name := get[*values](top, "tuner"), "tuner"
	advisor := get[*values](top, "advisor")
	switch {
	case advisor != nil && top.has("tuner"):
		r.fault(top.at("advisor"), "a file has either a tuner or an advisor", "remove one of them")
		return Algorithm{}
	case advisor != nil:
		section, name = advisor, "advisor"
		r.adviseAlone(top)
	case section == nil:
		if !top.has("tuner") && !top.has("advisor") {
			r.missing(top, "tuner")
		}
		return Algorithm{}
	}
	return r.algorithm(section, purpose{name, tunerNames, r.build.Tuners, nil})
}

// adviseAlone refuses an assessor beside an advisor, which stops trials itself.
func (r *reader) adviseAlone(top *values) {
	if top.has("assessor") {
		r.fault(top.at("assessor"), "an advisor goes without an assessor", "remove the assessor")
	}
}

func (r *reader) assessor(top *values) *Algorithm {
	section := get[*values](top, "assessor")
	if section == nil {
		return nil
	}
	assessor := r.algorithm(section, purpose{"assessor", assessorNames, r.build.Assessors, r.build.CheckAssessor})
	return &assessor
}

func (r *reader) algorithm(v *values, p purpose) Algorithm {
	made := Algorithm{
		ClassName:     get[string](v, "className"),
		CodeDirectory: get[string](v, "codeDirectory"),
		Command:       get[string](v, "command"),
		Arguments:     get[json.RawMessage](v, "classArgs"),
	}
	var kinds []string
	for _, kind := range []string{"name", "className", "command"} {
		if v.has(kind) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) > 1 {
		r.fault(v.at(kinds[1]), "an algorithm has one of name, className and command", "remove "+kinds[0]+" or "+kinds[1])
		return made
	}
	switch {
	case v.has("className"):
		r.class(v, p, made)
	case v.has("command"):
		r.program(v, p, &made)
	case v.has("name"):
		made.Name = r.named(v, p, made)
	default:
		r.missingAt(v.node, "name", "a built-in "+p.word+", or className and codeDirectory for one of your own")
	}
	return made
}

// class finds out whether a class of the user's can run.
func (r *reader) class(v *values, p purpose, made Algorithm) {
	before := r.faults.count
	if !v.has("codeDirectory") {
		r.missing(v, "codeDirectory")
	}
	if name, ok := v.entries["className"].value.(string); ok && !strings.Contains(strings.Trim(name, "."), ".") {
		r.fault(v.at("className"), "must be module.Class", "my_tuner.MyTuner is class MyTuner of my_tuner.py")
	}
	if r.faults.count == before && made.ClassName != "" && made.CodeDirectory != "" {
		r.checkProcess(v, "className", p, made)
	}
}

// program completes an algorithm that is a command.
func (r *reader) program(v *values, p purpose, made *Algorithm) {
	if made.CodeDirectory == "" {
		made.CodeDirectory = r.directory
	}
	switch {
	case v.entries["command"].value == nil: // a fault already
	case strings.TrimSpace(made.Command) == "":
		r.fault(v.at("command"), "is empty", "the command of a program, such as python3 my_tuner.py")
	default:
		r.checkProcess(v, "command", p, *made)
	}
}

// checkProcess asks whether an algorithm that is not ours can run.
func (r *reader) checkProcess(v *values, key string, p purpose, made Algorithm) {
	if r.build.CheckAlgorithm == nil {
		r.fault(v.at(key), "algorithms of your own are not in this build", "")
		return
	}
	r.tried[p.kind()] = v.at(key)
	err := r.build.CheckAlgorithm(p.kind(), made)
	if err == nil {
		return
	}
	node := v.at(key)
	if about, ok := err.(interface{ Argument() bool }); ok && about.Argument() {
		node = argumentsNode(v)
	}
	r.fault(node, made.String()+": "+err.Error(), hintOf(err))
}

func hintOf(err error) string {
	if hinted, ok := err.(interface{ Hint() string }); ok {
		return hinted.Hint()
	}
	return ""
}

// named returns the name of an algorithm of this build, or of one that runs in a
// process; empty where it is wrong.
func (r *reader) named(v *values, p purpose, made Algorithm) string {
	written, ok := v.entries["name"].value.(string)
	if !ok {
		return "" // a fault already
	}
	node := v.at("name")
	if strings.EqualFold(written, "NetworkMorphism") {
		r.fault(node, "NetworkMorphism searches architectures, which is not supported",
			"search what describes yours, such as depth and widths, with TPE or Evolution")
		return ""
	}
	made.Name = canonicalName(written, p.names)
	switch {
	case made.Name == "":
		return r.registered(v, p, made, written)
	case slices.Contains(p.built, made.Name):
		r.checkArguments(v, p, made)
	case r.build.CheckAlgorithm == nil:
		r.fault(node, p.word+" "+made.Name+" is not in this build", "this build has "+listed(p.built))
		return ""
	default:
		r.checkProcess(v, "name", p, made)
	}
	return made.Name
}

// registered returns a name that neither we nor NNI have built in, where NNI was
// told of it by nnictl.
func (r *reader) registered(v *values, p purpose, made Algorithm, written string) string {
	made.Name = written
	if r.build.CheckAlgorithm != nil && nearest(written, p.names) == "" {
		err := r.build.CheckAlgorithm(p.kind(), made)
		unknown, ok := err.(interface{ Stranger() bool })
		if err == nil || ok && !unknown.Stranger() {
			if r.tried[p.kind()] = v.at("name"); err != nil {
				r.checkProcess(v, "name", p, made)
			}
			return written
		}
	}
	r.fault(v.at("name"), "there is no "+p.word+" "+quoted(written), meantAmong(written, p.names))
	return ""
}

func (r *reader) checkArguments(v *values, p purpose, a Algorithm) {
	if a.Name == "" || p.check == nil {
		return
	}
	if err := p.check(a.Name, a.Arguments); err != nil {
		r.fault(argumentsNode(v), err.Error(), "")
	}
}

// argumentsNode is where a complaint about an algorithm's arguments points.
func argumentsNode(v *values) *yaml.Node {
	if node := v.entries["classArgs"].node; node != nil {
		return node
	}
	return v.at("name")
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
