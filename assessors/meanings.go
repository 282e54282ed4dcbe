package assessors

import (
	"strings"

	"github.com/perennial-ml/perennial/arguments"
)

var maximizes = arguments.Meaning{Default: "maximize", Text: "what is sought of the reports"}

// meanings is what arguments do, by the names of their assessors in lower case.
var meanings = map[string]map[string]arguments.Meaning{
	"asha": {
		"optimize_mode":       maximizes,
		"min_budget":          {Default: "1", Text: "the first step at which trials are judged"},
		"max_budget":          {Text: "how many steps a whole trial has: from there on nothing is stopped"},
		"eta":                 {Default: "3", Text: "one of so many goes on"},
		"early_stopping_rate": {Default: "0", Text: "how many of the first such steps to leave out"},
	},
	"medianstop": {
		"optimize_mode": maximizes,
		"start_step":    {Default: "0", Text: "the first step at which trials are judged"},
	},
	"curvefitting": {
		"optimize_mode": maximizes,
		"epoch_num":     {Text: "how many steps a whole trial has; must be given"},
		"start_step":    {Default: "6", Text: "the first step at which trials are judged"},
		"gap":           {Default: "1", Text: "judge every so many steps"},
		"threshold":     {Default: "0.95", Text: "how near is near: within 1 - 0.95 of the best value"},
	},
}

func meaningsOf(name string) map[string]arguments.Meaning { return meanings[strings.ToLower(name)] }
