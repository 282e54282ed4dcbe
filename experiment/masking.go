package experiment

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const masked = "***"

// secretNames are the keys whose values are never shown, folded. A key that
// contains one of them, or is a slip of the hand away, is secret too.
var secretNames = []string{
	"password", "passwd", "passphrase", "token", "secret", "accountkey", "accesskey", "apikey", "privatekey",
}

// secretKey tells whether the value of a key must not be shown.
func secretKey(key string) bool {
	key = fold(key)
	if key == "accesskeyid" || key == "imagepullsecrets" {
		return false
	}
	for _, name := range secretNames {
		if strings.Contains(key, name) {
			return true
		}
	}
	return nearest(key, secretNames) != ""
}

// mask is a stretch of the file that holds a secret.
type mask struct {
	line, column int
	last         int    // the last line of a value of several lines, else line
	value        string // as decoded
}

// findMasks returns the secrets of a tree whose aliases are not yet resolved.
func findMasks(root *yaml.Node) []mask {
	f := maskFinder{seen: map[*yaml.Node]bool{}}
	f.walk(root, false)
	return f.masks
}

type maskFinder struct {
	masks []mask
	open  bool // the last mask has no last line yet
	seen  map[*yaml.Node]bool
}

func (f *maskFinder) walk(n *yaml.Node, secret bool) {
	if n.Kind == yaml.AliasNode {
		if secret && !f.seen[n.Alias] {
			f.seen[n.Alias] = true
			f.aliased(n.Alias)
		}
		return
	}
	f.visit(n, secret)
	if n.Kind != yaml.MappingNode {
		for _, item := range n.Content {
			f.walk(item, secret)
		}
		return
	}
	for key, value := range pairs(n) {
		f.visit(key, secret)
		if fold(key.Value) != "searchspace" {
			f.walk(value, secret || secretKey(key.Value))
		}
	}
}

// aliased masks what stands elsewhere in the file. Further lines of such values
// are found by what they say.
func (f *maskFinder) aliased(n *yaml.Node) {
	first := len(f.masks)
	f.walk(n, true)
	for i := range f.masks[first:] {
		f.masks[first+i].last = f.masks[first+i].line
	}
	f.open = false
}

func (f *maskFinder) visit(n *yaml.Node, secret bool) {
	if f.open {
		last := &f.masks[len(f.masks)-1]
		last.last = max(last.line, n.Line-1)
		f.open = false
	}
	if _, reference := ParseReference(n.Value); reference {
		return // it says where the secret is
	}
	if secret && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		f.masks = append(f.masks, mask{line: n.Line, column: n.Column, last: 1 << 30, value: n.Value})
		f.open = true
	}
}

// source returns a line of the file with its secrets masked, and where a column
// of the line has moved by that.
func (d *document) source(line, column int) (string, int) {
	if line < 1 || line > len(d.lines) {
		return "", column
	}
	l := maskedLine{text: []rune(d.lines[line-1]), caret: column}
	for i := len(d.masks) - 1; i >= 0; i-- { // from the right, so that columns stay true
		l.hide(d.masks[i], line)
	}
	return d.redacted(string(l.text)), l.caret
}

// redacted hides secrets that a text repeats.
func (d *document) redacted(text string) string {
	for _, m := range d.masks {
		text = m.hideElsewhere(text)
	}
	return text
}

type maskedLine struct {
	text  []rune
	caret int
}

func (l *maskedLine) hide(m mask, line int) {
	switch {
	case line > m.line && line <= m.last && strings.TrimSpace(string(l.text)) != "":
		l.replace(0, len(l.text))
	case line == m.line && m.column <= len(l.text):
		l.replace(m.column-1, m.end(l.text))
	}
}

func (l *maskedLine) replace(from, to int) {
	if l.caret > to {
		l.caret += len(masked) - (to - from)
	}
	l.text = slices.Replace(l.text, from, to, []rune(masked)...)
}

// end is the column behind the value. What follows on the line is hidden too
// where the end of the value is in doubt.
func (m mask) end(text []rune) int {
	rest := string(text[m.column-1:])
	for _, quote := range []string{"", `"`, "'"} {
		if whole := quote + m.value + quote; m.value != "" && strings.HasPrefix(rest, whole) {
			return m.column - 1 + len([]rune(whole))
		}
	}
	return len(text)
}

// hideElsewhere hides the value where an anchor or a comment repeats it.
func (m mask) hideElsewhere(text string) string {
	for _, part := range strings.Split(m.value, "\n") {
		if part = strings.TrimSpace(part); len(part) > 3 {
			text = strings.ReplaceAll(text, part, masked)
		}
	}
	return text
}

var secretLine = regexp.MustCompile(`(?i)^(.*?[\w-]*(?:pass[\w-]*|token|secret|key)[\w-]*["']?\s*:)\s*\S.*$`)

// maskUnparsed returns a line of a file that is no YAML. What belongs to a key
// that may be secret is hidden, also where the key stands above.
func maskUnparsed(lines []string, number int) string {
	line := lines[number-1]
	if parts := secretLine.FindStringSubmatch(line); parts != nil {
		return parts[1] + " " + masked
	}
	for i := number - 2; i >= 0; i-- {
		if indent(lines[i]) < indent(line) && strings.TrimSpace(lines[i]) != "" {
			if key, _, found := strings.Cut(lines[i], ":"); found && secretKey(strings.Trim(key, ` "'-`)) {
				return masked
			}
			break
		}
	}
	return line
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// hidden tells whether a node is, or holds, a secret.
func (d *document) hidden(n *yaml.Node) bool {
	for _, m := range d.masks {
		if m.line == n.Line && m.column == n.Column {
			return true
		}
	}
	return false
}
