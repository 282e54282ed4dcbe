package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
)

// side is one of the systems that are compared.
type side struct {
	name    string
	measure func(Work) (Figures, error)
}

func (b *Bench) sides() []side {
	return []side{{"Perennial", b.perennial}, {"NNI 3.0", b.nni}}
}

// perennial measures on a host of its own that serves already, since it serves
// all experiments of its user; what that costs is measured by warm.
func (b *Bench) perennial(w Work) (f Figures, err error) {
	w, err = b.work(w)
	if err != nil {
		return f, err
	}
	p, err := b.newPerennial()
	if err != nil {
		return f, err
	}
	f, err = p.measure(w)
	return f, errors.Join(err, p.stop())
}

func (b *Bench) nni(w Work) (f Figures, err error) {
	w, err = b.work(w)
	if err != nil {
		return f, err
	}
	n, err := b.newNNI()
	if err != nil {
		return f, err
	}
	return n.measure(w)
}

// bare measures the bare server.
func (b *Bench) bare(w Work) (f Figures, err error) {
	watch := newWatch()
	command := exec.Command(b.ceiling, "-trials", strconv.Itoa(w.Trials), "-concurrency", strconv.Itoa(w.Concurrency))
	out, err := command.Output()
	if err != nil {
		return f, fmt.Errorf("ceiling: %w", err)
	}
	var answer struct{ PerSecond float64 }
	if err := json.Unmarshal(out, &answer); err != nil {
		return f, err
	}
	state := command.ProcessState
	f = Figures{Trials: w.Trials, PerSecond: answer.PerSecond, Parts: []Part{{"all", state.UserTime() + state.SystemTime()}}}
	f.Others = watch.others(f.used())
	return f, nil
}

// empty compares everybody with empty trials at both concurrencies.
func (b *Bench) empty(plan Plan) error {
	if err := b.compare(); err != nil {
		return err
	}
	sides := append(b.sides(), side{"bare server", b.bare})
	for _, w := range []Work{{Trials: plan.AtFour, Concurrency: 4}, {Trials: plan.AtMore, Concurrency: 16}} {
		table, err := b.rounds(plan.Rounds, w, sides)
		if err != nil {
			return err
		}
		table.print(fmt.Sprintf("Empty trials, concurrency %d, %d trials each", w.Concurrency, w.Trials))
	}
	return nil
}

// kept counts metrics in one long measurement of both.
func (b *Bench) kept(plan Plan) error {
	if err := b.compare(); err != nil {
		return err
	}
	table, err := b.rounds(1, Work{Trials: plan.Kept, Concurrency: 16}, b.sides())
	if err != nil {
		return err
	}
	table.print(fmt.Sprintf("Metrics kept: %d empty trials, concurrency 16, %d intermediate and %d final values",
		plan.Kept, 3*plan.Kept, plan.Kept))
	return nil
}

// imports compares both with a trial that imports NNI's SDK.
func (b *Bench) imports(plan Plan) error {
	if err := b.compare(); err != nil {
		return err
	}
	w := Work{Trials: plan.Imports, Concurrency: 4, Python: b.venv + "/bin/python3"}
	table, err := b.rounds(1, w, b.sides())
	if err != nil {
		return err
	}
	table.print(fmt.Sprintf("Trials that import nni, concurrency 4, %d trials each", w.Trials))
	return nil
}

// rounds measures the sides in turns.
func (b *Bench) rounds(rounds int, w Work, sides []side) (Table, error) {
	table := Table{}
	for _, side := range sides {
		table = append(table, Row{Name: side.name})
	}
	for round := range rounds {
		for i, side := range sides {
			before := load()
			figures, err := side.measure(w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			say("round %d, %s at %d: %.1f trials/s, idle %.0f ms, %.1f CPU ms a trial, load %.1f, others use %.1f processors", round+1, side.name,
				w.Concurrency, figures.PerSecond, 1000*median(figures.Idle), 1000*figures.used().Seconds()/float64(max(1, figures.Trials)), before, figures.Others)
			table[i].add(figures, before)
		}
	}
	return table, nil
}

// warm measures the second experiment of a host: from the command to its first
// trial's first instruction.
func (b *Bench) warm(plan Plan) error {
	p, err := b.newPerennial()
	if err != nil {
		return err
	}
	var after []float64
	before := load()
	for range 2 + 2*plan.Rounds {
		w, err := b.work(Work{Trials: 4, Concurrency: 4})
		if err != nil {
			return err
		}
		f, err := p.measure(w)
		if err != nil {
			return err
		}
		after = append(after, f.FirstAfter)
	}
	fmt.Printf("\n### A further `starter run` on a host that serves\n\nFirst trial's first instruction %s s after the command (median of %d; the first of the host's life %s s). Load average before: %s.\n",
		digits(median(after[1:]), 2), len(after)-1, digits(after[0], 2), digits(before, 1))
	return p.stop()
}
