package command

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perennial-ml/perennial/arguments"
	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
	"github.com/perennial-ml/perennial/tuners/bridge"
)

const tunerHelp = `tuner lists the tuners and assessors that are built in, with their arguments, what
these are by default, what they do and what they may be.

With a name it is that algorithm, for programs in any language: it reads JSON lines
from standard input and answers them on standard output, until its input ends. No
experiment is involved and nothing is kept. The lines are those that starter speaks
to tuners of your own; docs/tuner-own.md has them all:

  {"op":"open","searchSpace":{"x":{"_type":"uniform","_value":[0,1]}},"mode":"minimize","seed":1}
  {"op":"suggest","trial":0}
  {"op":"observe","trial":0,"status":"succeeded","value":0.31}`

func (w World) tunerCommand() *cobra.Command {
	var as *format
	cmd := &cobra.Command{
		Use: "tuner [NAME]", Short: "List the built-in algorithms, or be one for another program", Long: tunerHelp,
		Example: examples("starter tuner", "starter tuner TPE < questions.jsonl"), Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return w.print(*as, builtIn(), func() [][]string { return w.algorithmRows(builtIn()) })
			}
			return w.serveAlgorithm(args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return algorithmNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	as = outputFlag(cmd)
	return cmd
}

// algorithmView is a built-in algorithm as scripts read it.
type algorithmView struct {
	Name      string         `json:"name"`
	Kind      string         `json:"kind"` // tuner or assessor
	Arguments []argumentView `json:"arguments"`
}

type argumentView struct {
	Name    string `json:"name"`
	Takes   string `json:"takes"`
	Default string `json:"default"` // empty where the meaning tells
	Meaning string `json:"meaning"`
}

func argumentViews(all []arguments.Argument) []argumentView {
	views := make([]argumentView, 0, len(all))
	for _, a := range all {
		views = append(views, argumentView{a.Name, a.Takes, a.Default, a.Text})
	}
	return views
}

func builtIn() []algorithmView {
	var list []algorithmView
	for _, name := range tuners.Names() {
		list = append(list, algorithmView{name, "tuner", argumentViews(tuners.Describe(name))})
	}
	for _, name := range assessors.Names() {
		list = append(list, algorithmView{name, "assessor", argumentViews(assessors.Describe(name))})
	}
	return list
}

// algorithmRows is the table of algorithms, each with its arguments below it. On a
// terminal meanings are broken into lines.
func (w World) algorithmRows(list []algorithmView) [][]string {
	rows := [][]string{{"NAME", "DEFAULT", "MEANING"}}
	for _, algorithm := range list {
		rows = append(rows, []string{algorithm.Name, "", algorithm.Kind})
		for _, a := range algorithm.Arguments {
			rows = append(rows, []string{"  " + a.Name, dash(a.Default), a.Meaning + " (" + a.Takes + ")"})
		}
	}
	return progress.Broken(rows, w.Width())
}

func algorithmNames() []string {
	names := append(tuners.Names(), assessors.Names()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// assessorOf is the built-in assessor of a name, nil where there is none.
func assessorOf(name string) *bridge.Assessor {
	if assessors.Native()[strings.ToLower(name)] == nil {
		return nil
	}
	return &bridge.Assessor{Arguments: assessors.Describe(name), New: func(arguments json.RawMessage) (bridge.Judge, error) {
		made, err := assessors.New(assessors.Spec{Name: name, Arguments: arguments})
		if err != nil {
			return nil, err
		}
		return func(event trial.Event) (bool, error) {
			verdict, err := made.Apply(event)
			return verdict.Stop, err
		}, nil
	}}
}

func (w World) serveAlgorithm(name string) error {
	if tuners.Native()[strings.ToLower(name)] == nil && assessors.Native()[strings.ToLower(name)] == nil {
		return badInput("starter tuner lists them all", "there is no built-in algorithm %q: choose one of %s", name, strings.Join(algorithmNames(), ", "))
	}
	if err := bridge.Serve(w.In, w.Out, name, assessorOf(name)); err != nil {
		return badInput("docs/tuner-own.md has the protocol", "standard input, %w", err)
	}
	return nil
}
