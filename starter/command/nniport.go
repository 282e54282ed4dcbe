package command

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// NNIPort is where an experiment is served to NNI's own clients.
type NNIPort struct {
	Experiment string `json:"experiment"`
	Port       int    `json:"port"`            // of loopback
	Open       bool   `json:"open"`            // to everybody on this machine, without a token
	Pages      string `json:"pages,omitempty"` // the directory of NNI's web pages, where it is installed
}

// NNIPortFile is where the host remembers the NNIPort of an experiment, for the next host.
func NNIPortFile(home, experiment string) string {
	return filepath.Join(home, "experiments", experiment, "nni-port.json")
}

// OpenNNI makes sure that a host is there, and has it serve an experiment to NNI's clients.
func (w World) OpenNNI(ctx context.Context, port NNIPort) error {
	if err := w.checkPort(ctx, port); err != nil {
		return err
	}
	host, err := w.Engine.Ensure(ctx)
	if err != nil {
		return w.notStarted(ctx, err)
	}
	w.openNNI(ctx, host, port)
	return nil
}

// flags are NNI's --port, and what may be read there.
func (p *NNIPort) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.Port, "port", 0, "serve NNI's REST routes and web pages at this `port` of 127.0.0.1")
	cmd.Flags().BoolVar(&p.Open, "nni-open", false, "with --port: to everybody on this machine; NNI's own clients have no token")
}

// checkPort refuses a port that somebody else has, before anything starts. A host that is
// there may have it itself, and says so where it cannot be had.
func (w World) checkPort(ctx context.Context, p NNIPort) error {
	if p.Port == 0 {
		if p.Open {
			return badInput("--port 8080 --nni-open", "--nni-open is for --port")
		}
		return nil
	}
	if p.Port < 1 || p.Port > 65535 {
		return badInput("a number from 1 to 65535", "%d is no port", p.Port)
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p.Port))
	if err != nil {
		if _, none := w.Engine.Find(ctx); none == nil {
			return nil
		}
		return badInput("choose another one, or end what has it", "port %d cannot be used: %w", p.Port, err)
	}
	return listener.Close()
}

// openNNI opens the port of an experiment that has been accepted. That it cannot be is no
// reason to end the experiment.
func (w World) openNNI(ctx context.Context, host Host, port NNIPort) {
	if port.Port == 0 {
		return
	}
	port.Pages = nniPages(ctx)
	link, err := w.Engine.OpenNNI(ctx, host, port)
	if err != nil {
		fmt.Fprintf(w.Err, "port %d could not be opened for NNI's clients: %v\n", port.Port, err)
		return
	}
	fmt.Fprintf(w.Err, "NNI's routes and pages: %s\n", link)
}

// nniPages is where the nni package of the caller's Python has its web pages, empty where
// it is not installed.
func nniPages(ctx context.Context) string {
	found, err := exec.CommandContext(ctx, "python3", "-c", "import nni_node; print(nni_node.__path__[0])").Output()
	if err != nil {
		return ""
	}
	return filepath.Join(strings.TrimSpace(string(found)), "static")
}
