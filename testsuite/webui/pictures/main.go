// The program pictures remakes the pictures of the README from a real run: its
// arguments are the starter to run, the experiment's file and the directory to
// write terminal.png and web-ui.png into.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perennial-ml/perennial/testsuite/webui"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: pictures STARTER EXPERIMENT.yml DIRECTORY")
		os.Exit(2)
	}
	if err := remake(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// studio is a starter with a state directory of its own.
type studio struct{ starter, home, directory string }

func remake(starter, file, directory string) (err error) {
	if webui.BrowserProgram() == "" {
		return errors.New("no Chromium is installed: apt-get install chromium")
	}
	home, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	s := studio{starter, home, directory}
	defer s.run("serve", "--stop")
	printed, err := s.run("run", file)
	if err != nil {
		return err
	}
	if err := s.picture("terminal.png", 740, func(b *webui.Browser) error {
		return b.Show(terminal("$ starter run "+filepath.Base(file), printed))
	}); err != nil {
		return err
	}
	return s.picture("web-ui.png", 1150, s.openExperiment)
}

func (s studio) run(arguments ...string) (string, error) {
	command := exec.Command(s.starter, arguments...)
	command.Env = append(os.Environ(), "PERENNIAL_HOME="+s.home)
	command.WaitDelay = time.Second // a host it starts may keep its pipes open
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("starter %s: %w\n%s", strings.Join(arguments, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// openExperiment opens the page of the finished experiment by a fresh link, since
// each lets in one browser.
func (s studio) openExperiment(browser *webui.Browser) error {
	shown, err := s.run("show", "--output", "json")
	if err != nil {
		return err
	}
	var view struct {
		Temporal struct {
			WebUI string `json:"webUI"`
		} `json:"temporal"`
	}
	if err := json.Unmarshal([]byte(shown), &view); err != nil {
		return err
	}
	return browser.Open(view.Temporal.WebUI, "COMPLETED", "Round • wait for news")
}

func (s studio) picture(name string, height int, open func(*webui.Browser) error) error {
	browser := webui.OpenBrowser(context.Background(), 1400, height)
	defer browser.Close()
	if err := open(browser); err != nil {
		return err
	}
	png, err := browser.Picture()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.directory, name), png, 0o644)
}

const style = `body { background: #1d2330; color: #dbe2ee; margin: 0; padding: 22px 28px; }
pre { font: 15px/1.45 "DejaVu Sans Mono", monospace; white-space: pre-wrap; } b { color: #7fd1a5; }`

// head and tail are the lines of a terminal that are shown of more.
const head, tail = 15, 7

// terminal is a page that looks like a terminal. Links are cut before their
// token, and the middle of much is left out.
func terminal(prompt, printed string) string {
	var lines []string
	for line := range strings.Lines(printed) {
		shown, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "?t=")
		lines = append(lines, html.EscapeString(shown))
	}
	if len(lines) > head+tail {
		lines = slices.Concat(lines[:head], []string{"…"}, lines[len(lines)-tail:])
	}
	return fmt.Sprintf("<!doctype html><meta charset=utf-8><style>%s</style><pre><b>%s</b>\n%s</pre>",
		style, html.EscapeString(prompt), strings.Join(lines, "\n"))
}
