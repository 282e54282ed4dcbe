package experiment

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NNI's algorithms by the names that 2.x and 3.0 give them; names ignore case.
var (
	tunerNames = []string{
		"Random", "GridSearch", "TPE", "TPE_legacy", "Anneal", "Evolution", "Batch", "SMAC", "Metis", "GP", "PBT",
		"DNGO", "PPO", "RegularizedEvolution", "Hyperband", "BOHB",
	}
	assessorNames = []string{"Medianstop", "Curvefitting"}

	// otherNames are 1.9's spellings.
	otherNames = map[string]string{
		"batchtuner": "Batch", "metistuner": "Metis", "gptuner": "GP", "pbttuner": "PBT", "dngotuner": "DNGO",
		"ppotuner": "PPO", "regularizedevolutiontuner": "RegularizedEvolution",
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
		Arguments:     get[json.RawMessage](v, "classArgs"),
	}
	switch {
	case v.has("name") && v.has("className"):
		r.fault(v.at("className"), "an algorithm has either a name or a className", "remove one of them")
	case v.has("className"):
		r.class(v)
	case v.has("name"):
		made.Name = r.builtIn(v, p)
		r.checkArguments(v, p, made)
	default:
		r.missingAt(v.node, "name", "a built-in "+p.word+", or className and codeDirectory for one of your own")
	}
	return made
}

func (r *reader) class(v *values) {
	if !v.has("codeDirectory") {
		r.missing(v, "codeDirectory")
	}
	if name, ok := v.entries["className"].value.(string); ok && !strings.Contains(strings.Trim(name, "."), ".") {
		r.fault(v.at("className"), "must be module.Class", "my_tuner.MyTuner is class MyTuner of my_tuner.py")
	}
	if !r.build.Classes {
		r.fault(v.at("className"), "algorithms of your own are not in this build", "")
	}
}

// builtIn returns the canonical name, empty where it is wrong or not in this build.
func (r *reader) builtIn(v *values, p purpose) string {
	written, ok := v.entries["name"].value.(string)
	if !ok {
		return "" // a fault already
	}
	node := v.at("name")
	if strings.EqualFold(written, "NetworkMorphism") {
		r.fault(node, "NetworkMorphism searches architectures, which is not supported", "")
		return ""
	}
	name := canonicalName(written, p.names)
	switch {
	case name == "":
		r.fault(node, "there is no "+p.word+" "+quoted(written), meantAmong(written, p.names))
	case !slices.Contains(p.built, name):
		r.fault(node, p.word+" "+name+" is not in this build", "this build has "+listed(p.built))
		return ""
	}
	return name
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
