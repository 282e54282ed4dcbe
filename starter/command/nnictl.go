package command

import (
	"fmt"
	"slices"
	"strings"
)

// spellings are nnictl's commands that starter calls otherwise. Those that it calls the
// same, and those that mean nothing here, are not among them.
var spellings = []struct{ theirs, here []string }{
	{[]string{"create"}, []string{"run", "--detach"}},
	{[]string{"experiment", "list"}, []string{"ls"}},
	{[]string{"experiment", "show"}, []string{"show"}},
	{[]string{"experiment", "status"}, []string{"show"}},
	{[]string{"experiment", "export"}, []string{"export"}},
	{[]string{"experiment", "delete"}, []string{"rm", "--yes"}},
	{[]string{"trial", "ls"}, []string{"trials"}},
	{[]string{"trial", "kill"}, []string{"kill"}},
	{[]string{"log", "trial"}, []string{"logs", "--trial-log"}},
	{[]string{"config", "show"}, []string{"show", "--output", "json"}},
	{[]string{"webui", "url"}, []string{"show"}},
}

// Flags of nnictl: those whose value is an argument here, those that are called
// otherwise, and those that mean nothing here, with whether they have a value.
var (
	asArgument = map[string]bool{"--config": true, "-c": true, "--trial_id": true, "-T": true}
	renamed    = map[string]string{"--type": "--format", "-t": "--format", "--filename": "--file", "-f": "--file"}
	dropped    = map[string]bool{"--port": true, "-p": true, "--url_prefix": true, "--debug": false, "-d": false, "--all": false}
)

// understood are the arguments as starter spells them, and said so where they were
// nnictl's.
func (w World) understood(args []string) []string {
	for _, spelling := range spellings {
		count := len(spelling.theirs)
		if len(args) < count || !slices.Equal(args[:count], spelling.theirs) {
			continue
		}
		here := slices.Concat(spelling.here, flagsHere(args[count:], spelling.theirs[0] == "create"))
		if slices.Contains(here, "--foreground") {
			here = slices.DeleteFunc(here, func(word string) bool { return word == "--detach" })
		}
		fmt.Fprintf(w.Err, "nnictl %s is: starter %s\n", strings.Join(args, " "), strings.Join(here, " "))
		return here
	}
	return args
}

// flagsHere rewrites what stands behind a command; arguments that were flags come last,
// as a trial does behind its experiment. A port means something where an experiment is
// begun.
func flagsHere(args []string, begins bool) []string {
	var rest, last []string
	words := separated(args)
	for len(words) > 0 {
		flag := words[0]
		hasValue, drop := dropped[flag]
		switch {
		case asArgument[flag] && len(words) > 1:
			last, words = append(last, words[1]), words[1:]
		case begins && (flag == "--port" || flag == "-p"):
			rest = append(rest, "--port")
		case renamed[flag] != "":
			rest = append(rest, renamed[flag])
		case drop && hasValue && len(words) > 1:
			words = words[1:]
		case drop:
		default:
			rest = append(rest, flag)
		}
		words = words[1:]
	}
	return append(rest, last...)
}

// separated takes --flag=value apart.
func separated(args []string) []string {
	var words []string
	for _, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		if joined && strings.HasPrefix(flag, "--") {
			words = append(words, flag, value)
			continue
		}
		words = append(words, arg)
	}
	return words
}
