package command

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// tailBytes is how much of the end of a file tail looks at.
const tailBytes = 64 << 10

// tail returns the last lines of a file, empty where it cannot be read: what it
// is for stands without it.
func tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	content, err := io.ReadAll(io.LimitReader(file, tailBytes))
	if err != nil {
		return ""
	}
	return lastLines(content, lines)
}

func lastLines(content []byte, lines int) string {
	content = bytes.TrimRight(content, "\n")
	at := len(content)
	for range lines {
		newline := bytes.LastIndexByte(content[:at], '\n')
		if newline < 0 {
			return printable(content)
		}
		at = newline
	}
	return printable(content[at+1:])
}

// printable keeps a trial's output from steering the terminal.
func printable(content []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(string(content), "·"))
}
