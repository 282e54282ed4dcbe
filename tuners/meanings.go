package tuners

import (
	"maps"
	"strings"

	"github.com/perennial-ml/perennial/arguments"
)

// Arguments that mean the same to many.
var (
	maximizes = arguments.Meaning{Default: "maximize", Text: "what is sought of the final result"}
	minimizes = arguments.Meaning{Default: "minimize", Text: "what is sought of the final result"}
	ignored   = arguments.Meaning{Text: "accepted because NNI has it, without meaning"}
	seeded    = arguments.Meaning{Text: "the same seed and the same results in the same order give the same trials; the experiment's by default"}
	evolving  = arguments.Meaning{Default: "32", Text: "the more, the more thorough; no more trials than this run at a time"}
)

// meanings is what arguments do, by the names of their tuners in lower case.
var meanings = map[string]map[string]arguments.Meaning{
	"tpe": {
		"optimize_mode": minimizes,
		"tpe_args": {Text: "n_startup_jobs (10): random trials before the model begins; n_ei_candidates (24): candidates compared for each trial; " +
			"linear_forgetting (25): how many of the latest bad trials count in full; prior_weight (1): how much the whole space counts beside the trials; " +
			"gamma: NNI's rule for how many trials are good ones; constant_liar_type: what running trials count as, best, worst, mean or null for nothing"},
	},
	"tpe_legacy": {
		"optimize_mode":      minimizes,
		"parallel_optimize":  {Default: "false", Text: "take running trials for ended, with a made up result"},
		"constant_liar_type": {Default: "min", Text: "that result: the least, the greatest or the mean of those so far"},
	},
	"gp": {
		"optimize_mode":                 maximizes,
		"utility":                       {Default: "ei", Text: "what to look for: the expected improvement, the confidence bound or the probability of an improvement"},
		"kappa":                         {Default: "5", Text: "for ucb: how many standard deviations of optimism"},
		"xi":                            {Default: "0", Text: "for ei and poi: how much better a result must be to count, in standard deviations of all results"},
		"alpha":                         {Default: "1e-6", Text: "the least noise of a result, as a share of the variance of all"},
		"cold_start_num":                {Default: "10", Text: "how many trials fill the space evenly before the model begins"},
		"nu":                            ignored,
		"selection_num_warm_up":         ignored,
		"selection_num_starting_points": ignored,
	},
	"cmaes": {
		"optimize_mode":   maximizes,
		"population_size": {Text: "trials in a generation; 4 + 3 log of the number of parameters by default"},
		"sigma0":          {Default: "0.3", Text: "how wide the cloud is at first, as a share of each range"},
		"restart":         {Default: "true", Text: "begin again elsewhere, with twice the generation, when the cloud has come to rest"},
	},
	"bohb": {
		"optimize_mode":       maximizes,
		"min_budget":          {Default: "1", Text: "the least TRIAL_BUDGET"},
		"max_budget":          {Default: "3", Text: "the largest TRIAL_BUDGET"},
		"eta":                 {Default: "3", Text: "of each rung one in so many goes on, with so many times the budget"},
		"min_points_in_model": {Text: "how many good results, at least, make a model of a budget; parameters + 1 by default, at most 40"},
		"top_n_percent":       {Default: "15", Text: "how many of a budget's results are good ones"},
		"num_samples":         {Default: "64", Text: "how many candidates the model compares for a configuration"},
		"random_fraction":     {Text: "what share of the configurations stays random; a third by default"},
		"bandwidth_factor":    {Default: "3", Text: "how much wider than the density of good ones the candidates are spread"},
		"min_bandwidth":       {Default: "0.001", Text: "the least width of a kernel, as a share of the range"},
		"config_space":        ignored,
	},
	"asha": {
		"optimize_mode":       maximizes,
		"min_budget":          {Default: "1", Text: "the smallest budget that tells anything"},
		"max_budget":          {Default: "60", Text: "the largest budget; there are min_budget, eta times that, and so on"},
		"eta":                 {Default: "3", Text: "one of so many goes on, with so many times the budget"},
		"early_stopping_rate": {Default: "0", Text: "how many of the smallest budgets to leave out"},
		"checkpoints":         {Default: "false", Text: "tell trials where to find the checkpoint of the same configuration"},
		"all_checkpoint_dir":  {Text: "the directory for that; turns checkpoints on"},
	},
	"hyperband": {
		"optimize_mode": maximizes,
		"R":             {Default: "60", Text: "the largest budget"},
		"eta":           {Default: "3", Text: "one of so many goes on, with so many times the budget"},
		"exec_mode":     {Default: "parallelism", Text: "begin the next bracket when a slot would be idle, or when the one before has ended"},
	},
	"pbt": {
		"optimize_mode":        maximizes,
		"population_size":      {Default: "10", Text: "how many members; a step ends when all have run"},
		"fraction":             {Default: "0.2", Text: "this share of the members, the worst, is replaced, by as many of the best"},
		"resample_probability": {Default: "0.25", Text: "how often a parameter is drawn anew instead of moved"},
		"factor":               {Default: "0.2", Text: "how far parameters are moved: a share of the range, or of the standard deviation"},
		"all_checkpoint_dir":   {Text: "where the models lie; below the experiment's directory by default"},
	},
	"evolution": {"optimize_mode": maximizes, "population_size": evolving},
	"regularizedevolution": {
		"optimize_mode":   maximizes,
		"population_size": {Default: "100", Text: "how many sets the oldest of which leaves"},
		"sample_size":     {Default: "25", Text: "the best of so many becomes the parent"},
	},
	"anneal": {
		"optimize_mode":      minimizes,
		"parallel_optimize":  {Default: "false", Text: "take running trials for ended, with a made up result"},
		"constant_liar_type": {Default: "min", Text: "that result: the least, the greatest or the mean of those so far"},
	},
	"random":     {"optimize_mode": ignored},
	"gridsearch": {"optimize_mode": ignored},
}

func meaningsOf(name string) map[string]arguments.Meaning {
	all := map[string]arguments.Meaning{"seed": seeded}
	maps.Copy(all, meanings[strings.ToLower(name)])
	return all
}
