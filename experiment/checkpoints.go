package experiment

import (
	"cmp"
	"encoding/json"
	"slices"
)

// checkpoints finds trials that shall go on from each other's checkpoints without a
// directory that all of them can reach. Trials that run here have one.
func (r *reader) checkpoints(top *values, e Experiment) {
	var given struct {
		Directory   string `json:"all_checkpoint_dir"`
		Checkpoints bool   `json:"checkpoints"`
	}
	if len(e.Tuner.Arguments) > 0 && json.Unmarshal(e.Tuner.Arguments, &given) != nil {
		return // a fault already
	}
	wanted := e.Tuner.Name == "PBT" || e.Tuner.Name == "ASHA" && given.Checkpoints
	elsewhere := slices.IndexFunc(e.Platforms, func(p Platform) bool { return p.Name != "" && r.build.elsewhere(p) })
	if !wanted || given.Directory != "" || elsewhere < 0 {
		return
	}
	section := cmp.Or(get[*values](top, "tuner"), get[*values](top, "advisor"))
	r.fault(argumentsNode(section), "trials on platform "+e.Platforms[elsewhere].Name+" need all_checkpoint_dir for the tuner "+e.Tuner.Name,
		"the absolute path of a directory that every trial can reach")
}
