package codedir

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shown is how many of the largest files an error names.
const shown = 10

// hopelessFactor is how far beyond a limit the count goes on, so that the
// error has true numbers, before it gives up (someone's whole home).
const hopelessFactor = 100

type sized struct {
	path  string
	bytes int64
}

// census counts a tree against its limits.
type census struct {
	limits  Limits
	files   int
	bytes   int64
	largest []sized        // largest first
	folders map[string]int // files below each folder at the top
}

func (c *census) count(f sized) {
	c.files++
	c.bytes += f.bytes
	c.countFolder(f.path)
	at, _ := slices.BinarySearchFunc(c.largest, f, func(a, b sized) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.path, b.path))
	})
	if at < shown {
		c.largest = slices.Insert(c.largest, at, f)
		c.largest = c.largest[:min(shown, len(c.largest))]
	}
}

func (c *census) countFolder(path string) {
	top, _, below := strings.Cut(path, "/")
	if !below {
		return
	}
	if c.folders == nil {
		c.folders = map[string]int{}
	}
	c.folders[top]++
}

func (c *census) within() bool {
	return (c.limits.Files <= 0 || c.files <= c.limits.Files) &&
		(c.limits.Bytes <= 0 || c.bytes <= c.limits.Bytes)
}

func (c *census) hopeless() bool {
	return c.limits.Files > 0 && c.files >= hopelessFactor*c.limits.Files
}

func (c *census) verdict(dir string) error {
	if c.within() {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s (limit %s), %s (limit %s); the largest:\n", dir,
		c.filesText(), countLimit(c.limits.Files), byteText(c.bytes), byteLimit(c.limits.Bytes))
	for _, f := range c.largest {
		fmt.Fprintf(&text, "  %10s  %q\n", byteText(f.bytes), f.path)
	}
	text.WriteString(c.fullest())
	text.WriteString("check that this is the right folder; exclude what trials do not need in a .nniignore there" +
		" (the syntax of .gitignore), or raise the limits")
	return fmt.Errorf("%w: %s", ErrTooLarge, text.String())
}

// fullest names the folders with the most files: it is seldom large files that
// make many.
func (c *census) fullest() string {
	tops := slices.SortedFunc(maps.Keys(c.folders), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.folders[b], c.folders[a]), cmp.Compare(a, b))
	})
	var text strings.Builder
	for _, top := range tops[:min(3, len(tops))] {
		fmt.Fprintf(&text, "  %5d files in %q\n", c.folders[top], top+"/")
	}
	return text.String()
}

func (c *census) filesText() string {
	if c.hopeless() {
		return fmt.Sprintf("more than %d files", c.files-1)
	}
	return fmt.Sprintf("%d files", c.files)
}

func countLimit(n int) string {
	if n <= 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func byteLimit(n int64) string {
	if n <= 0 {
		return "none"
	}
	return byteText(n)
}

func byteText(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
