package main

import (
	"fmt"
	"slices"
	"strings"
)

// target is a figure that is to be at most its bound.
type target struct {
	about  string
	figure float64
	bound  float64
}

func (t target) String() string {
	verdict := "met"
	if t.figure > t.bound {
		verdict = "**missed**"
	}
	return fmt.Sprintf("| %s | %.2f | ≤ %.2f | %s |\n", t.about, t.figure, t.bound, verdict)
}

func writeTargets(out *strings.Builder, targets []target) {
	if len(targets) == 0 {
		return
	}
	fmt.Fprint(out, "\n### Targets\n\n| Target | Measured | Bound | |\n|--|--|--|--|\n")
	for _, t := range targets {
		out.WriteString(t.String())
	}
}

// targets are those of TPE, as far as what they need was measured.
func (b *Bench) targets() (all []target) {
	if !slices.Contains(b.Tuners, "TPE") {
		return nil
	}
	for _, atOnce := range b.AtOnce {
		if slices.Contains(b.Beside, "Optuna") {
			all = append(all, b.ratioTargets("Optuna", atOnce, 1)...)
		}
		if slices.Contains(b.Beside, "Random") {
			all = append(all, b.randomTarget(atOnce))
		}
	}
	if slices.Contains(b.AtOnce, 1) && slices.Contains(b.AtOnce, 8) {
		for _, budget := range b.Budgets {
			s := b.score(side{"TPE", 8}, side{"TPE", 1}, budget)
			all = append(all, target{fmt.Sprintf("Regret of 8 at once : one at a time, after %d", budget), geometricMean(s.ratios), 1.5})
		}
	}
	return all
}

func (b *Bench) ratioTargets(other string, atOnce int, bound float64) (all []target) {
	for _, budget := range b.Budgets {
		if budget >= 100 {
			s := b.score(side{"TPE", atOnce}, side{other, atOnce}, budget)
			about := fmt.Sprintf("Regret of TPE : %s, %s, after %d", other, manner(atOnce), budget)
			all = append(all, target{about, geometricMean(s.ratios), bound})
		}
	}
	return all
}

func (b *Bench) randomTarget(atOnce int) target {
	count := 0
	for _, budget := range b.Budgets {
		count += b.score(side{"TPE", atOnce}, side{"Random", atOnce}, budget).worse
	}
	return target{"Functions and budgets where TPE is significantly worse than Random, " + manner(atOnce), float64(count), 0}
}

// gaussian sets GP against TPE where few evaluations are all there is.
func gaussian(b *Bench) (string, error) {
	few := &Bench{Options: b.Options, measured: newMeasured(b.Folder)}
	few.Tuners, few.Beside, few.Budgets, few.AtOnce = []string{"GP"}, []string{"TPE", "Random"}, []int{50}, []int{1}
	few.Functions = slices.DeleteFunc(slices.Clone(b.Functions), func(name string) bool {
		f, err := functionNamed(name)
		return err == nil && len(f.Low) > 6
	})
	text, err := regrets(few)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	s := few.score(side{"GP", 1}, side{"TPE", 1}, 50)
	writeTargets(&out, []target{{"Regret of GP : TPE, up to 6 dimensions, after 50", geometricMean(s.ratios), 0.5}})
	return text + out.String(), nil
}
