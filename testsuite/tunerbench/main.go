// Tunerbench measures how good our algorithms are, beside those of other projects in
// the same run, and writes the tables of docs/tuner-quality.md. All contenders see
// the same functions with the same seeds, through the same protocol.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// part is one table, or several that belong together. What it writes stands in the
// page between marks with its name.
type part struct {
	name  string
	write func(*Bench) (string, error)
}

// parts lists everything that is measured, in the order of the page.
func parts() []part {
	return []part{
		{"regrets", regrets},
		{"noise", noisy},
		{"gaussian-process", gaussian},
		{"learning-curves", learningCurves},
	}
}

// Bench is one run of this program.
type Bench struct {
	Options
	measured   *Measured
	contenders []Contender // ours first
	noise      float64     // Noise of every job
	last       int         // with noise, of how many evaluations the one that looks best is judged; 0: of all
}

// Options are the flags.
type Options struct {
	Parts        []string
	Tuners       []string // native, by name
	Beside       []string // what they are compared with: Random, Optuna, NNI
	Functions    []string
	Noisy        []string // functions that are measured with noise too
	Arguments    string
	FirstSeed    int
	Seeds        int
	Budgets      []int // evaluations after which regrets are compared
	AtOnce       []int
	PythonOptuna string
	PythonNNI    string
	Folder       string
	Page         string
	Jobs         int
	Quick        bool
}

func main() {
	bench := &Bench{Options: options()}
	err := bench.run()
	bench.close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func (b *Bench) close() {
	for _, c := range b.contenders {
		c.Close()
	}
}

func options() (o Options) {
	var every []string
	for _, p := range parts() {
		every = append(every, p.name)
	}
	list(&o.Parts, "parts", strings.Join(every, ","), "what to measure")
	list(&o.Tuners, "tuner", "TPE", "our tuners that are measured")
	list(&o.Beside, "beside", "Random,Optuna,NNI", "what they are compared with: those three, or tuners of ours")
	list(&o.Functions, "functions", strings.Join(functionNames(), ","), "the functions")
	list(&o.Noisy, "noisy-functions", "Branin01,Hartmann6,Ackley,Levy03,StyblinskiTang", "the functions that are measured with noise")
	flag.StringVar(&o.Arguments, "arguments", "", "classArgs of the measured tuners, as JSON")
	flag.IntVar(&o.FirstSeed, "first-seed", 0, "the first seed")
	flag.IntVar(&o.Seeds, "seeds", 20, "how many seeds")
	numbers(&o.Budgets, "trials", []int{50, 100, 200}, "after how many evaluations regrets are compared")
	numbers(&o.AtOnce, "at-once", []int{1, 8}, "how many suggestions are outstanding")
	flag.StringVar(&o.PythonOptuna, "python-optuna", "", "a Python with optuna; empty: an environment is made")
	flag.StringVar(&o.PythonNNI, "python-nni", "", "a Python with nni; empty: an environment is made")
	flag.StringVar(&o.Folder, "folder", "bin/tunerbench", "where environments and kept results lie")
	flag.StringVar(&o.Page, "page", "", "the page whose marked parts are written anew; empty: print only")
	flag.IntVar(&o.Jobs, "jobs", 2, "searches of ours at a time")
	flag.BoolVar(&o.Quick, "quick", false, "5 seeds, 50 evaluations, one at a time, beside Random only")
	flag.Parse()
	if o.Quick {
		o.Seeds, o.Budgets, o.AtOnce, o.Beside = 5, []int{50}, []int{1}, []string{"Random"}
	}
	return o
}

func list(into *[]string, name, standard, about string) {
	*into = strings.Split(standard, ",")
	flag.Func(name, about+" (default "+standard+")", func(given string) error {
		*into = slices.DeleteFunc(strings.Split(given, ","), func(s string) bool { return s == "" })
		return nil
	})
}

func numbers(into *[]int, name string, standard []int, about string) {
	*into = standard
	flag.Func(name, fmt.Sprintf("%s (default %v)", about, standard), func(given string) error {
		*into = nil
		for _, text := range strings.Split(given, ",") {
			var n int
			if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
				return fmt.Errorf("%q is no number above 0", text)
			}
			*into = append(*into, n)
		}
		slices.Sort(*into)
		return nil
	})
}

func functionNames() (names []string) {
	for _, f := range Functions() {
		names = append(names, f.Name)
	}
	return names
}

func (b *Bench) run() error {
	if err := os.MkdirAll(b.Folder, 0o755); err != nil {
		return err
	}
	b.measured = newMeasured(b.Folder)
	for _, p := range parts() {
		if !slices.Contains(b.Parts, p.name) {
			continue
		}
		text, err := p.write(b)
		if err != nil {
			return err
		}
		fmt.Print(text)
		if err := b.publish(p.name, text); err != nil {
			return err
		}
	}
	return nil
}

// publish writes a part into the page, between its marks.
func (b *Bench) publish(name, text string) error {
	if b.Page == "" {
		return nil
	}
	page, err := os.ReadFile(b.Page)
	if err != nil {
		return err
	}
	begin, end := "<!-- measured: "+name+", by make bench-tuners -->\n", "<!-- end of "+name+" -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no marks for %s: want %q and %q", b.Page, name, begin, end)
	}
	return os.WriteFile(b.Page, []byte(before+begin+text+end+after), 0o644)
}
