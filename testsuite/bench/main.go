// Bench measures Perennial beside NNI 3.0 and beside the bare Temporal server it
// stands on, in one run, and prints tables for docs/benchmarks.md. What trials
// did is read from a ledger that they keep themselves, what was used from /proc.
// Each side is measured in turns, several rounds of them: what else the machine
// does then meets all alike, and is written down beside every figure.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Plan says how much is measured.
type Plan struct {
	Rounds   int // turns of every side
	AtFour   int // trials of one measurement at concurrency 4
	AtMore   int // and at concurrency 16
	Kept     int // trials of the measurement that counts metrics
	Imports  int // trials that import NNI's SDK
	Long     int // trials of the long run
	Parallel int // its concurrency
	Ended    int // experiments that have ended in a home with some live ones
	Pods     int // trials in pods, of each of the slots
	Crowd    int // trials in pods of a simulated node
	Services int // trials at once on a service
	Reports  int // of each of these, one every five seconds
}

var (
	full  = Plan{Rounds: 3, AtFour: 200, AtMore: 400, Kept: 1000, Imports: 48, Long: 5000, Parallel: 500, Ended: 300, Pods: 15, Crowd: 1000, Services: 100, Reports: 12}
	quick = Plan{Rounds: 1, AtFour: 40, AtMore: 80, Kept: 100, Imports: 8, Long: 200, Parallel: 50, Ended: 30, Pods: 5, Crowd: 100, Services: 20, Reports: 6}
)

func main() {
	plan := full
	parts := flag.String("parts", "empty,kept,import,warm,split,long,home,remote,clusters,kubernetes,kubernetes-scale", "what to measure")
	small := flag.Bool("quick", false, "measure little: to see that everything works")
	starter := flag.String("starter", "bin/starter", "the program under test")
	venv := flag.String("venv", "", "a Python environment with nni 3.0; empty: one is made from PyPI")
	profile := flag.Bool("profile", false, "write processor profiles of every host into the scratch directory, and keep it")
	keep := flag.Bool("keep", false, "keep the scratch directory")
	long := flag.Int("long", 0, "trials of the long run, instead of 5,000")
	parallel := flag.Int("parallel", 0, "its concurrency, instead of 500")
	cores := flag.String("cores", "", "the cores that hosts may use, as taskset takes them; empty: all")
	spinning := flag.Int("spinning", 0, "processes that keep those cores busy during the long run")
	flag.Parse()
	if *small {
		plan = quick
	}
	plan.Long, plan.Parallel = cmp.Or(*long, plan.Long), cmp.Or(*parallel, plan.Parallel)
	bench, err := newBench(*starter, *venv)
	if err == nil {
		bench.profile, bench.cores, bench.spinning = *profile, *cores, *spinning
		err = bench.run(plan, strings.Split(*parts, ","))
		bench.close(*keep || *profile)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Bench is one run of this program.
type Bench struct {
	scratch  string
	starter  string
	venv     string
	channel  string // the program that speaks NNI's HTTP channel
	ceiling  string // the program that measures the bare server
	profile  bool
	cores    string // that hosts may use; empty: all
	spinning int    // processes that use them, too, during the long run
	number   int    // of measurements so far, which names their directories
}

func newBench(starter, venv string) (*Bench, error) {
	starter, err := filepath.Abs(starter)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "perennial-bench-")
	if err != nil {
		return nil, err
	}
	return &Bench{scratch: scratch, starter: starter, venv: venv}, nil
}

// compare makes what a comparison needs, once.
func (b *Bench) compare() (err error) {
	if b.channel != "" {
		return nil
	}
	if b.venv == "" {
		if b.venv, err = makeVenv(b.scratch); err != nil {
			return err
		}
	}
	if b.ceiling, err = build(b.scratch, "ceiling"); err != nil {
		return err
	}
	b.channel, err = build(b.scratch, "channel")
	return err
}

func (b *Bench) close(keep bool) {
	if keep {
		say("everything is kept in %s", b.scratch)
		return
	}
	os.RemoveAll(b.scratch)
}

func (b *Bench) run(plan Plan, parts []string) error {
	measure := map[string]func(Plan) error{
		"empty": b.empty, "kept": b.kept, "import": b.imports, "warm": b.warm, "split": b.split, "long": b.long, "home": b.longHome, "remote": b.remote, "clusters": b.clusters, "kubernetes": b.kubernetes, "kubernetes-scale": b.kubernetesScale,
	}
	conditions()
	for _, part := range parts {
		run, known := measure[part]
		if !known {
			return fmt.Errorf("there is no part %q", part)
		}
		if err := run(plan); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// say tells whoever waits; results go to standard output.
func say(format string, arguments ...any) { fmt.Fprintf(os.Stderr, format+"\n", arguments...) }
