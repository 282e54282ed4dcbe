// Package docs makes the parts of the documentation that come from declarations
// in the code, and holds the rest to what the code says.
package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/experiment"
	"github.com/perennial-ml/perennial/platforms/all"
	"github.com/perennial-ml/perennial/starter/command"
	"github.com/perennial-ml/perennial/tuners"
)

// parts are the generated parts of pages, by the name in their marks.
var parts = map[string]func() string{
	"keys":     keys,
	"build":    build,
	"commands": commands,
}

// fill returns a page with every generated part made anew. A part stands between
// "<!-- generated: NAME, by make docs -->" and "<!-- end of NAME -->".
func fill(page string) (string, error) {
	for name, make := range parts {
		begin, end := "<!-- generated: "+name+", by make docs -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(page, begin)
		if !found {
			continue
		}
		_, after, found := strings.Cut(rest, end)
		if !found {
			return "", errors.New("there is no " + end)
		}
		page = before + begin + "\n" + make() + "\n" + end + after
	}
	return page, nil
}

func keys() string {
	var text strings.Builder
	for _, section := range experiment.Describe() {
		fmt.Fprintf(&text, "%s\n\n", heading(section.Name))
		if section.Free {
			text.WriteString("The platform checks its own keys, see below.\n\n")
			continue
		}
		text.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
		for _, key := range section.Keys {
			fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", key.Name, valueOf(key), defaultOf(key), cell(key.Meaning))
		}
		text.WriteString("\n")
	}
	return strings.TrimRight(text.String(), "\n")
}

func heading(name string) string {
	if name == "experiment" {
		return "### The file"
	}
	if slices.Contains(experiment.PlatformNames(), name) {
		return "### Platform " + name
	}
	return "### In " + name
}

func valueOf(key experiment.Key) string {
	words := cell(key.Value)
	if key.Section != "" {
		words += fmt.Sprintf(", see [%s](#in-%s)", key.Section, strings.ToLower(key.Section))
	}
	return words
}

func defaultOf(key experiment.Key) string {
	switch {
	case key.Required:
		return "**required**"
	case key.Default != "":
		return "`" + cell(key.Default) + "`"
	}
	return ""
}

// cell keeps text from ending its column.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func build() string {
	platforms := slices.Sorted(maps.Keys(all.All(all.Options{})))
	var text strings.Builder
	text.WriteString("| | in this build | also accepted in files |\n|---|---|---|\n")
	row := func(what string, have, every []string, note string) {
		others := strings.Join(slices.DeleteFunc(every, func(name string) bool { return slices.Contains(have, name) }), ", ")
		if others != "" {
			others += note
		}
		fmt.Fprintf(&text, "| %s | %s | %s |\n", what, strings.Join(have, ", "), others)
	}
	const byNNI = ": these run in the `nni` of [your Python](tuner-own.md)"
	row("tuners and advisors", tuners.Names(), experiment.TunerNames(), byNNI)
	row("assessors", assessors.Names(), experiment.AssessorNames(), byNNI)
	row("platforms", platforms, experiment.PlatformNames(), ", and then refused by name")
	return strings.TrimRight(text.String(), "\n")
}

// commands prints the help of every command, as the program does.
func commands() string {
	var text strings.Builder
	for _, name := range commandNames(help()) {
		fmt.Fprintf(&text, "## starter %s\n\n```text\n%s```\n\n", name, help(strings.Fields(name)...))
		for _, inner := range commandNames(help(strings.Fields(name)...)) {
			below := name + " " + inner
			fmt.Fprintf(&text, "### starter %s\n\n```text\n%s```\n\n", below, help(strings.Fields(below)...))
		}
	}
	return strings.TrimRight(text.String(), "\n")
}

// commandNames reads the names below "Commands:" in a help text.
func commandNames(help string) []string {
	_, list, _ := strings.Cut(help, "\nCommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for line := range strings.Lines(list) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

func help(words ...string) string {
	var out bytes.Buffer
	command.Main(context.Background(), command.World{Args: append(words, "--help"), Out: &out, Err: &out})
	return out.String()
}
