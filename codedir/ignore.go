package codedir

import (
	"path"
	"strings"
	"unicode/utf8"
)

// rule is one line of an ignore file.
type rule struct {
	glob       glob
	keeps      bool // began with "!"
	folderOnly bool // ended with "/"
	byPath     bool // had a slash elsewhere: matched from the ignore file's folder
	nni        bool // of an ignore file of NNI's: upper and lower case are the same
}

// rules are those of one folder, within those of the folders above it.
type rules struct {
	folder string // "." for the top
	list   []rule
	outer  *rules
}

// candidate is something whose fate the rules decide.
type candidate struct {
	path   string // from the top of the tree
	folder bool   // a folder itself; a link to one is not
}

// exclude returns the rule that leaves c out, nil where none does: the nearest
// folder whose rules say anything about it decides, and of its rules the last one
// that matches.
func (r *rules) exclude(c candidate) *rule {
	for ; r != nil; r = r.outer {
		if said := r.last(c); said != nil && said.keeps {
			return nil
		} else if said != nil {
			return said
		}
	}
	return nil
}

// empties reports whether of a folder that by leaves out an empty one stays. NNI 2.x
// asks about folders as if they were files, which a rule such as "data/" is not
// about; trials rely on finding the folder and fill it.
func (r *rules) empties(by *rule, folder string) bool {
	return by.nni && by.folderOnly && r.exclude(candidate{path: folder}) == nil
}

func (r *rules) last(c candidate) *rule {
	inner := c
	if r.folder != "." {
		inner.path = c.path[len(r.folder)+1:]
	}
	for i := len(r.list) - 1; i >= 0; i-- {
		if r.list[i].match(inner) {
			return &r.list[i]
		}
	}
	return nil
}

func (r *rule) match(c candidate) bool {
	if r.folderOnly && !c.folder {
		return false
	}
	if r.nni {
		c.path = lower(c.path)
	}
	if r.byPath {
		return r.glob.match(c.path)
	}
	return r.glob.match(path.Base(c.path))
}

// lower leaves text that is no UTF-8 as it is.
func lower(text string) string {
	if !utf8.ValidString(text) {
		return text
	}
	return strings.ToLower(text)
}

// nniRules reads an ignore file as NNI does, which is as git does but for case.
func nniRules(text string) []rule {
	list := parseRules(lower(text))
	for i := range list {
		list[i].nni = true
	}
	return list
}

// parseRules reads an ignore file the way git reads its own.
func parseRules(text string) []rule {
	var list []rule
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		if r, ok := parseRule(strings.TrimSuffix(line, "\r")); ok {
			list = append(list, r)
		}
	}
	return list
}

func parseRule(line string) (rule, bool) {
	if strings.HasPrefix(line, "#") {
		return rule{}, false
	}
	line, _, _ = strings.Cut(line, "\x00")
	line = trimSpaces(line)
	var r rule
	line, r.keeps = strings.CutPrefix(line, "!")
	line, r.folderOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return rule{}, false
	}
	r.byPath = strings.Contains(line, "/")
	if r.byPath {
		r.glob = pathGlob(strings.TrimPrefix(line, "/"))
	} else {
		r.glob = basenameGlob(line)
	}
	return r, true
}

// trimSpaces takes trailing spaces off, but not tabs and not what a backslash
// protects.
func trimSpaces(line string) string {
	keep := 0
	for at := 0; at < len(line); at++ {
		if line[at] == '\\' {
			at++
			if at == len(line) {
				return line
			}
			keep = at + 1
		} else if line[at] != ' ' {
			keep = at + 1
		}
	}
	return line[:keep]
}
