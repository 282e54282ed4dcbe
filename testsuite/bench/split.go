package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// hostParts are the parts of the host process, by what is on the stack of a
// sample; the first that matches has it.
var hostParts = []struct{ name, functions string }{
	{"record", `perennial/record\.`},
	{"platform: directories and files of a run, start of its runner", `perennial/platforms/`},
	{"activities, pollers, tuner", `perennial/(activities|tuners|assessors)`},
	{"workflows, with Temporal's SDK", `perennial/workflows|go\.temporal\.io/sdk/`},
	{"Temporal's server", `go\.temporal\.io/server/|temporal\.io/api/|jmoiron/sqlx`},
	{"garbage collection", `gcBgMarkWorker|bgsweep|bgscavenge`},
	{"gRPC between them, scheduler, the rest", `.`},
}

// split measures once more with a profile of the host, and divides its processor
// time among the parts. The profile has the host's own start in it.
func (b *Bench) split(plan Plan) error {
	before := load()
	profiled := *b
	profiled.profile, profiled.number = true, b.number+1000
	f, err := profiled.perennial(Work{Trials: plan.AtMore, Concurrency: 16})
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(b.scratch, "*.pprof"))
	if err == nil && len(files) == 0 {
		err = errors.New("the host wrote no profile")
	}
	if err != nil {
		return err
	}
	fmt.Printf("\n### Processor time of the host by part, %d empty trials at concurrency 16\n\n| part | ms a trial |\n|--|--|\n", f.Trials)
	var ignored []string
	for _, part := range hostParts {
		seconds, err := sampled(files[len(files)-1], part.functions, strings.Join(ignored, "|"))
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %s |\n", part.name, digits(1000*seconds/float64(f.Trials), 1))
		ignored = append(ignored, part.functions)
	}
	fmt.Printf("\nBeside the host: %s ms a trial in runner and trial. Load average before: %s.\n", digits(f.perTrial(f.Parts[1]), 1), digits(before, 1))
	return nil
}

var accounted = regexp.MustCompile(`Showing nodes accounting for ([0-9.]+)(ms|s|mins|),`)

// sampled returns the processor seconds of the samples that have a function that
// matches on their stack, and none that is ignored.
func sampled(file, functions, ignored string) (float64, error) {
	arguments := []string{"tool", "pprof", "-top", "-nodecount=100000", "-nodefraction=0", "-edgefraction=0", "-focus=" + functions}
	if ignored != "" {
		arguments = append(arguments, "-ignore="+ignored)
	}
	out, err := exec.Command("go", append(arguments, file)...).CombinedOutput()
	found := accounted.FindSubmatch(out)
	if found == nil {
		if strings.Contains(string(out), "no samples") || strings.Contains(string(out), "empty") {
			return 0, nil
		}
		return 0, fmt.Errorf("go tool pprof: %w\n%s", err, out)
	}
	number, err := strconv.ParseFloat(string(found[1]), 64)
	switch string(found[2]) {
	case "ms":
		number /= 1000
	case "mins":
		number *= 60
	}
	return number, err
}
