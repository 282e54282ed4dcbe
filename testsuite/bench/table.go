package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Table is one comparison, a row for each side; the first row is ours.
type Table []Row

// Row is one side's rounds.
type Row struct {
	Name   string
	rounds []Figures
	loads  []float64
}

func (r *Row) add(f Figures, before float64) {
	r.rounds, r.loads = append(r.rounds, f), append(r.loads, before)
}

// each is the same of all rounds.
func (r Row) each(of func(Figures) float64) (values []float64) {
	for _, f := range r.rounds {
		values = append(values, of(f))
	}
	return values
}

func perSecond(f Figures) float64 { return f.PerSecond }

// print writes a table in Markdown: medians of the rounds.
func (t Table) print(title string) {
	fmt.Printf("\n### %s\n\n", title)
	fmt.Println("| | trials/s | ours is | idle median | idle p95 | intermediate kept | final kept | memory at the end | load before | processors used by others |")
	fmt.Println("|--|--|--|--|--|--|--|--|--|--|")
	for _, row := range t {
		row.print(t[0])
	}
	fmt.Println("\nProcessor time of a trial:")
	fmt.Println()
	for _, row := range t {
		row.printParts()
	}
}

func (r Row) print(ours Row) {
	idle := func(share float64) string {
		if len(r.rounds[0].Idle) == 0 {
			return "–"
		}
		return digits(1000*median(r.each(func(f Figures) float64 { return quantile(f.Idle, share) })), 0) + " ms"
	}
	memory, kept := "–", [2]string{"–", "–"}
	if r.rounds[0].ResidentMB > 0 {
		memory = digits(median(r.each(func(f Figures) float64 { return f.ResidentMB })), 0) + " MB"
		kept = r.kept()
	}
	fmt.Printf("| %s | %s | %s× | %s | %s | %s | %s | %s | %s | %s |\n", r.Name, digits(median(r.each(perSecond)), 1),
		digits(median(ours.over(r)), 1), idle(0.5), idle(0.95), kept[0], kept[1], memory, span(r.loads),
		span(r.each(func(f Figures) float64 { return f.Others })))
}

// kept are the counts of metrics over all rounds.
func (r Row) kept() (counts [2]string) {
	var intermediates, finals, trials int
	for _, f := range r.rounds {
		intermediates, finals, trials = intermediates+f.Intermediates, finals+f.Finals, trials+f.Trials
	}
	return [2]string{fmt.Sprintf("%d of %d", intermediates, 3*trials), fmt.Sprintf("%d of %d", finals, trials)}
}

// over is how much faster this side was than another, round by round.
func (r Row) over(other Row) (ratios []float64) {
	for i := range r.rounds {
		ratios = append(ratios, r.rounds[i].PerSecond/other.rounds[i].PerSecond)
	}
	return ratios
}

func (r Row) printParts() {
	var words []string
	for i, part := range r.rounds[0].Parts {
		used := median(r.each(func(f Figures) float64 { return f.perTrial(f.Parts[i]) }))
		words = append(words, fmt.Sprintf("%s %s ms", part.Name, digits(used, 1)))
	}
	fmt.Printf("- %s: %s\n", r.Name, strings.Join(words, "; "))
}

func digits(value float64, after int) string { return strconv.FormatFloat(value, 'f', after, 64) }

// span is one value, or the lowest and the highest.
func span(values []float64) string {
	lowest, highest := digits(quantile(values, 0), 1), digits(quantile(values, 1), 1)
	if lowest == highest {
		return lowest
	}
	return lowest + "–" + highest
}

// conditions prints what the figures were measured on.
func conditions() {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	fmt.Printf("Measured %s on %d processors (%s), %s, Linux %s, %s. Load averages are of the minute before; `processors used by others` is what the rest of the machine used meanwhile.\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), firstOf("/proc/cpuinfo", "model name"), firstOf("/proc/meminfo", "MemTotal"),
		strings.TrimSpace(string(kernel)), pythonVersion())
}

func firstOf(path, name string) string {
	content, _ := os.ReadFile(path)
	for line := range strings.Lines(string(content)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func pythonVersion() string {
	out, err := exec.Command("python3", "--version").Output()
	if err != nil {
		return "no Python"
	}
	return strings.TrimSpace(string(out))
}
