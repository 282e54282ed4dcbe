package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// regrets measures simple regret on the functions and compares ours with others.
func regrets(b *Bench) (string, error) {
	if err := b.assemble(); err != nil {
		return "", err
	}
	if err := b.measureAll(); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, atOnce := range b.AtOnce {
		b.writeMedians(&out, atOnce)
	}
	for _, tuner := range b.Tuners {
		b.writeComparisons(&out, tuner)
	}
	writeTargets(&out, b.targets())
	return out.String(), nil
}

// assemble starts the contenders that take part.
func (b *Bench) assemble() error {
	for _, name := range b.Tuners {
		b.contenders = append(b.contenders, native{name, json.RawMessage(b.Arguments)})
	}
	for _, name := range b.Beside {
		c, err := b.contender(name)
		if err != nil {
			return err
		}
		b.contenders = append(b.contenders, c)
	}
	for _, c := range b.contenders {
		if err := b.measured.load(c); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) contender(name string) (Contender, error) {
	switch name {
	case "Optuna":
		return newPython(name, "optuna.py", b.PythonOptuna, b.Folder)
	case "NNI":
		return newPython(name, "nni.py", b.PythonNNI, b.Folder)
	}
	return native{name: name}, nil
}

// measureAll runs what was not measured before: of ours several searches at a time,
// of each other project one.
func (b *Bench) measureAll() error {
	for _, c := range b.contenders {
		atATime := 1
		if _, ours := c.(native); ours {
			atATime = b.Jobs
		}
		if err := b.measureOne(c, atATime); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) measureOne(c Contender, atATime int) error {
	jobs := b.jobs()
	waiting := make(chan Job, len(jobs))
	for _, job := range jobs {
		waiting <- job
	}
	close(waiting)
	faults := make([]error, atATime)
	var all sync.WaitGroup
	for i := range faults {
		all.Go(func() {
			for job := range waiting {
				faults[i] = errors.Join(faults[i], b.measured.measure(c, job))
			}
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

func (b *Bench) jobs() (jobs []Job) {
	for _, atOnce := range b.AtOnce {
		for _, function := range b.Functions {
			for seed := range b.Seeds {
				jobs = append(jobs, b.job(function, seed, atOnce))
			}
		}
	}
	return jobs
}

func (b *Bench) job(function string, seed, atOnce int) Job {
	return Job{Function: function, Seed: uint64(b.FirstSeed + seed), AtOnce: atOnce, Trials: slices.Max(b.Budgets), Noise: b.noise}
}

// of is a contender's regrets, one for each seed.
func (b *Bench) of(contender, function string, atOnce, budget int) []float64 {
	all := make([]float64, b.Seeds)
	for seed := range all {
		job := b.job(function, seed, atOnce)
		all[seed] = job.regret(b.measured.of(contender, job)[:budget], b.last)
	}
	return all
}

func (b *Bench) writeMedians(out *strings.Builder, atOnce int) {
	fmt.Fprintf(out, "\n### Median regret, %s\n\n| Function (dimensions) |", manner(atOnce))
	for _, c := range b.contenders {
		fmt.Fprintf(out, " %s |", c.Name())
	}
	fmt.Fprintf(out, "\n|--|%s\n", strings.Repeat("--|", len(b.contenders)))
	for _, function := range b.Functions {
		f, err := functionNamed(function)
		if err != nil {
			continue // measuring has refused it
		}
		fmt.Fprintf(out, "| %s (%d) |", function, len(f.Low))
		for _, c := range b.contenders {
			fmt.Fprintf(out, " %s |", b.medians(c.Name(), function, atOnce))
		}
		fmt.Fprintln(out)
	}
}

func manner(atOnce int) string {
	if atOnce == 1 {
		return "one at a time"
	}
	return fmt.Sprintf("%d at once", atOnce)
}

func (b *Bench) medians(contender, function string, atOnce int) string {
	var texts []string
	for _, budget := range b.Budgets {
		texts = append(texts, fmt.Sprintf("%.3g", median(b.of(contender, function, atOnce, budget))))
	}
	return strings.Join(texts, " / ")
}

// writeComparisons sets one tuner of ours against every other contender.
func (b *Bench) writeComparisons(out *strings.Builder, tuner string) {
	fmt.Fprintf(out, "\n### %s beside the others, after %s evaluations\n\n", tuner, slashed(b.Budgets))
	fmt.Fprintln(out, "| Compared | Regret ratio | Better by median | Significantly better | Significantly worse | Lost cells |\n|--|--|--|--|--|--|")
	for _, atOnce := range b.AtOnce {
		for _, c := range b.contenders {
			if c.Name() != tuner {
				b.writeComparison(out, side{tuner, atOnce}, side{c.Name(), atOnce})
			}
		}
	}
	for _, atOnce := range b.AtOnce {
		if atOnce > 1 && slices.Contains(b.AtOnce, 1) {
			b.writeComparison(out, side{tuner, atOnce}, side{tuner, 1})
		}
	}
}

// side is a contender in one manner.
type side struct {
	name   string
	atOnce int
}

func (s side) String() string { return s.name + ", " + manner(s.atOnce) }

func slashed(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", " / ")
}

// score sums up one comparison at one budget.
type score struct {
	ratios              []float64
	wins, better, worse int
	lost                []string // functions whose median is worse
}

// level is the share of chance that a difference may have to count.
const level = 0.05

func (b *Bench) score(ours, theirs side, budget int) (s score) {
	for _, function := range b.Functions {
		a, c := b.of(ours.name, function, ours.atOnce, budget), b.of(theirs.name, function, theirs.atOnce, budget)
		r := ratio(median(a), median(c))
		s.ratios = append(s.ratios, r)
		if r < 1 {
			s.wins++
		}
		if r > 1 {
			s.lost = append(s.lost, fmt.Sprintf("%s %.2f", function, r))
		}
		if worse(c, a) < level {
			s.better++
		}
		if worse(a, c) < level {
			s.worse++
			s.lost = starred(s.lost, function, r)
		}
	}
	return s
}

func (b *Bench) writeComparison(out *strings.Builder, ours, theirs side) {
	var ratios, wins, better, worse, lost []string
	for _, budget := range b.Budgets {
		s := b.score(ours, theirs, budget)
		ratios = append(ratios, fmt.Sprintf("%.2f", geometricMean(s.ratios)))
		wins = append(wins, fmt.Sprint(s.wins))
		better, worse = append(better, fmt.Sprint(s.better)), append(worse, fmt.Sprint(s.worse))
		if len(s.lost) > 0 {
			lost = append(lost, fmt.Sprintf("%d: %s", budget, strings.Join(s.lost, ", ")))
		}
	}
	fmt.Fprintf(out, "| %s : %s | %s | %s of %d | %s | %s | %s |\n", ours, theirs, joined(ratios), joined(wins),
		len(b.Functions), joined(better), joined(worse), strings.Join(lost, "; "))
}

func joined(texts []string) string { return strings.Join(texts, " / ") }

// starred marks a function as significantly worse, which its median may hide.
func starred(lost []string, function string, r float64) []string {
	if r > 1 {
		lost = lost[:len(lost)-1]
	}
	return append(lost, fmt.Sprintf("**%s %.2f**", function, r))
}
