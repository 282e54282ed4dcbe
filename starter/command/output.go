package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/starter/progress"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// format is the value of --output.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	asYAML  format = "yaml"
)

func (f *format) String() string { return string(*f) }

// Type is what help shows as the flag's value.
func (f *format) Type() string { return "table|json|yaml" }

// Set takes the flag's value.
func (f *format) Set(value string) error {
	switch format(value) {
	case asTable, asJSON, asYAML:
		*f = format(value)
		return nil
	}
	return fmt.Errorf("there are table, json and yaml")
}

// stream is the value of --output where an experiment is followed.
type stream struct{ format }

// Type is what help shows as the flag's value.
func (s *stream) Type() string { return "table|json" }

// Set takes the flag's value.
func (s *stream) Set(value string) error {
	if format(value) == asYAML {
		return fmt.Errorf("there are table and json")
	}
	return s.format.Set(value)
}

// outputFlag adds --output to a reading command.
func outputFlag(cmd *cobra.Command) *format {
	chosen := asTable
	cmd.Flags().VarP(&chosen, "output", "o", "how to print")
	complete(cmd, "output", "table", "json", "yaml")
	return &chosen
}

func complete(cmd *cobra.Command, flag string, values ...string) {
	fixed := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, fixed); err != nil {
		panic(err) // the flag was just defined
	}
}

// print writes a value as JSON or YAML, or what rows makes of it as a table.
func (w World) print(as format, value any, rows func() [][]string) error {
	switch as {
	case asJSON:
		return w.printJSON(value)
	case asYAML:
		return w.printYAML(value)
	}
	return w.printRows(rows())
}

// printJSON writes lists with one element a line, other values indented.
func (w World) printJSON(value any) error {
	text, err := marshal(value)
	if err != nil {
		return err
	}
	var elements []json.RawMessage
	if json.Unmarshal(text, &elements) == nil {
		return w.printElements(elements)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w.Out, indented.String())
	return err
}

func (w World) printElements(elements []json.RawMessage) error {
	lines := make([]string, len(elements))
	for i, element := range elements {
		lines[i] = "\n " + string(element)
	}
	end := "]"
	if len(lines) > 0 {
		end = "\n]"
	}
	_, err := fmt.Fprintln(w.Out, "["+strings.Join(lines, ",")+end)
	return err
}

// printYAML goes by way of JSON, which is YAML, so that both show the same
// names and the same digits.
func (w World) printYAML(value any) error {
	text, err := marshal(value)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return err
	}
	unfold(&node)
	encoder := yaml.NewEncoder(w.Out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return err
	}
	return encoder.Close()
}

func unfold(node *yaml.Node) {
	node.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	for _, child := range node.Content {
		unfold(child)
	}
}

// marshal is JSON on one line without escapes for HTML.
func marshal(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// printRows writes a table, its first row the heads of the columns.
func (w World) printRows(rows [][]string) error {
	lines := progress.Columns(rows)
	if w.colour() && len(lines) > 0 {
		lines[0] = progress.Bold(lines[0])
	}
	_, err := fmt.Fprintln(w.Out, strings.Join(lines, "\n"))
	return err
}

// colour tells whether escape sequences are welcome (https://no-color.org).
func (w World) colour() bool {
	return w.Width() > 0 && w.Getenv("NO_COLOR") == "" && w.Getenv("TERM") != "dumb"
}

// stamp is a time as scripts read it: RFC 3339 in UTC, or null.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	return &text
}

// ago is a time as people read it.
func (w World) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return progress.Span(w.Now().Sub(t)) + " ago"
}
