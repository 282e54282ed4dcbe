package codedir

import "strings"

// byteSet is what one position of a name may hold. It never holds a slash
// unless made by just.
type byteSet [4]uint64

var anyByte = matching(func(byte) bool { return true }).without('/')

func just(c byte) byteSet {
	var s byteSet
	s.add(c)
	return s
}

func matching(accept func(byte) bool) byteSet {
	var s byteSet
	for c := range 256 {
		if accept(byte(c)) {
			s.add(byte(c))
		}
	}
	return s
}

func (s *byteSet) add(c byte)     { s[c/64] |= 1 << (c % 64) }
func (s byteSet) has(c byte) bool { return s[c/64]&(1<<(c%64)) != 0 }

func (s byteSet) without(c byte) byteSet {
	s[c/64] &^= 1 << (c % 64)
	return s
}

// setReader reads a bracket expression.
type setReader struct {
	text     string
	at       int
	set      byteSet
	previous int // the byte a range may start from, -1 where none may
}

// parseSet reads the bracket expression that text starts with and returns its
// length, 0 if it has no end or names a class that is none.
func parseSet(text string) (byteSet, int) {
	r := setReader{text: text, at: 1, previous: -1}
	negated := strings.HasPrefix(text[1:], "!") || strings.HasPrefix(text[1:], "^")
	if negated {
		r.at++
	}
	// The first item is taken as it is: a bracket there does not close.
	for first := true; first || r.peek() != ']'; first = false {
		if !r.item() {
			return byteSet{}, 0
		}
	}
	set := r.set
	if negated {
		set = matching(func(c byte) bool { return !r.set.has(c) })
	}
	return set.without('/'), r.at + 1
}

// peek returns the byte at which r stands, 0 past the end.
func (r *setReader) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

// item reads a byte, a range's second half or a class; false if there is none.
func (r *setReader) item() bool {
	rest := r.text[min(r.at, len(r.text)):]
	switch {
	case rest == "":
		return false
	case strings.HasPrefix(rest, "[:"):
		return r.class(rest)
	case rest[0] == '-' && r.previous >= 0 && len(rest) > 1 && rest[1] != ']':
		return r.through()
	}
	c, ok := r.literal()
	r.set.add(c)
	r.previous = int(c)
	return ok
}

// literal reads one byte, escaped or not.
func (r *setReader) literal() (byte, bool) {
	if r.peek() == '\\' {
		r.at++
	}
	c := r.peek()
	r.at++
	return c, r.at <= len(r.text)
}

func (r *setReader) through() bool {
	r.at++
	last, ok := r.literal()
	for c := r.previous; c <= int(last); c++ {
		r.set.add(byte(c))
	}
	r.previous = -1
	return ok
}

// class reads "[:name:]". Without the second colon the bracket is a bracket.
func (r *setReader) class(rest string) bool {
	name, _, closed := strings.Cut(rest[2:], "]")
	if !closed {
		return false
	}
	name, isClass := strings.CutSuffix(name, ":")
	if !isClass {
		r.set.add('[')
		r.previous = '['
		r.at++
		return true
	}
	accept, known := classes[name]
	if !known {
		return false
	}
	r.set = matching(func(c byte) bool { return r.set.has(c) || accept(c) })
	r.previous = -1
	r.at += len("[::]") + len(name)
	return true
}

// classes are POSIX's, of ASCII, as git knows them: to it, vertical tab and
// form feed are no spaces.
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  isGraph,
	"lower":  isLower,
	"print":  func(c byte) bool { return isGraph(c) || c == ' ' },
	"punct":  func(c byte) bool { return isGraph(c) && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' },
	"upper":  isUpper,
	"xdigit": func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' },
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isAlpha(c byte) bool { return isLower(c) || isUpper(c) }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isGraph(c byte) bool { return '!' <= c && c <= '~' }
