package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is this build's version. A release is stamped by the linker:
// -ldflags "-X github.com/perennial-ml/perennial/starter/command.Version=v1.2.3".
var Version = "devel"

// build is what version prints.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // empty where the build did not know it
	Modified bool   `json:"modified"` // there were changes on top of the commit
	Time     string `json:"time"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (w World) versionCommand() *cobra.Command {
	var as *format
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Long: "version prints which starter this is, and how it was built.",
		Example: examples("starter version", "starter version --output json"), Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			this := thisBuild()
			if *as == asTable {
				_, err := fmt.Fprintln(w.Out, this)
				return err
			}
			return w.print(*as, this, nil)
		},
	}
	as = outputFlag(cmd)
	return cmd
}

func thisBuild() build {
	this := build{Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, known := debug.ReadBuildInfo()
	if !known {
		return this
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			this.Commit = setting.Value
		case "vcs.time":
			this.Time = setting.Value
		case "vcs.modified":
			this.Modified = setting.Value == "true"
		}
	}
	return this
}

func (b build) String() string {
	text := fmt.Sprintf("starter %s (%s, %s", b.Version, b.Go, b.Platform)
	if b.Commit != "" {
		text += fmt.Sprintf(", commit %.12s of %s", b.Commit, b.Time)
	}
	if b.Modified {
		text += ", modified"
	}
	return text + ")"
}
