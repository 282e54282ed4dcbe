package codedir

import "strings"

// glob is one compiled gitignore pattern. It is matched byte by byte and in
// time linear in the name, whatever the pattern, because ignore files come
// from strangers.
type glob struct {
	prefix string // to be found literally in front of what the steps match
	steps  []step
	never  bool // malformed: git lets such a pattern match nothing
}

type stepKind int

const (
	oneOf    stepKind = iota // one byte out of a set
	star                     // any bytes but slashes
	deep                     // any bytes
	folders                  // nothing, or whatever inFolder matches
	inFolder                 // any bytes up to and with a slash; always follows folders
)

type step struct {
	kind stepKind
	set  byteSet
}

// basenameGlob compiles a pattern without slashes, matched against last names.
func basenameGlob(pattern string) glob {
	return compile(glob{}, pattern)
}

// pathGlob compiles a pattern with a slash, matched against paths. Git takes
// the literal beginning off before it globs, so that in "a**/x" the stars
// stand at a beginning and span folders.
func pathGlob(pattern string) glob {
	first := strings.IndexAny(pattern, `*?[\`)
	if first < 0 {
		return glob{prefix: pattern}
	}
	return compile(glob{prefix: pattern[:first]}, pattern[first:])
}

func compile(g glob, pattern string) glob {
	for at := 0; at < len(pattern); {
		used := g.next(pattern, at)
		if used == 0 {
			return glob{never: true}
		}
		at += used
	}
	return g
}

// next adds the steps of what stands at pattern[at:] and returns its length,
// 0 if it is malformed.
func (g *glob) next(pattern string, at int) int {
	switch c := pattern[at]; c {
	case '*':
		return g.stars(pattern, at)
	case '?':
		g.add(anyByte)
		return 1
	case '[':
		set, used := parseSet(pattern[at:])
		g.add(set)
		return used
	case '\\':
		if at+1 == len(pattern) {
			return 0
		}
		g.add(just(pattern[at+1]))
		return 2
	default:
		g.add(just(c))
		return 1
	}
}

func (g *glob) add(set byteSet) { g.steps = append(g.steps, step{kind: oneOf, set: set}) }

// stars handles a run of asterisks: two or more that fill a whole path
// component span folders, all others are one.
func (g *glob) stars(pattern string, at int) int {
	rest := strings.TrimLeft(pattern[at:], "*")
	run := len(pattern) - at - len(rest)
	fills := run > 1 && (at == 0 || pattern[at-1] == '/')
	switch {
	case fills && strings.HasPrefix(rest, "/"):
		g.steps = append(g.steps, step{kind: folders}, step{kind: inFolder})
		return run + 1
	case fills && (rest == "" || strings.HasPrefix(rest, `\/`)):
		g.steps = append(g.steps, step{kind: deep})
	default:
		g.steps = append(g.steps, step{kind: star})
	}
	return run
}

// match follows all ways through the steps at once.
func (g *glob) match(name string) bool {
	rest, found := strings.CutPrefix(name, g.prefix)
	if g.never || !found {
		return false
	}
	now := make([]bool, len(g.steps)+1)
	g.enter(now, 0)
	for i := range len(rest) {
		next := make([]bool, len(g.steps)+1)
		for at := range g.steps {
			if now[at] {
				g.advance(next, at, rest[i])
			}
		}
		now = next
	}
	return now[len(g.steps)]
}

// enter marks step at, and those after it that can be reached for nothing.
func (g *glob) enter(states []bool, at int) {
	states[at] = true
	if at == len(g.steps) {
		return
	}
	switch g.steps[at].kind {
	case star, deep:
		g.enter(states, at+1)
	case folders:
		states[at+1] = true
		g.enter(states, at+2)
	}
}

// advance marks where byte c leads to from step at.
func (g *glob) advance(next []bool, at int, c byte) {
	switch s := g.steps[at]; {
	case s.kind == oneOf && s.set.has(c):
		g.enter(next, at+1)
	case s.kind == star && c != '/', s.kind == deep:
		g.enter(next, at)
	case s.kind == inFolder:
		next[at] = true
		if c == '/' {
			g.enter(next, at+1)
		}
	}
}
