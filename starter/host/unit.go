package host

import (
	"fmt"
	"io"
	"strings"
)

// PrintUnit writes a systemd user unit that runs the host of the directory, the
// way back after a reboot. KillMode=process leaves trials alone when it stops.
func PrintUnit(w io.Writer, starter string, dir Dir) error {
	_, err := fmt.Fprintf(w, `# Save as ~/.config/systemd/user/perennial.service, then:
#   systemctl --user enable --now perennial && loginctl enable-linger
[Unit]
Description=Perennial host: Temporal server and workers

[Service]
Environment=%s
ExecStart=%s serve
KillMode=process
Restart=on-failure
TimeoutStopSec=10

[Install]
WantedBy=default.target
`, quoted("PERENNIAL_HOME="+dir.path), strings.ReplaceAll(quoted(starter), "$", "$$"))
	return err
}

// quoted escapes what systemd would read as a specifier or the end of a word. A
// command line expands $ as well, an environment does not.
func quoted(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(word) + `"`
}
