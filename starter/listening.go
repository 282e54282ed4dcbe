package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/perennial-ml/perennial/dashboard"
	"github.com/perennial-ml/perennial/door"
	"github.com/perennial-ml/perennial/starter/command"
)

// listening serves the dashboard to other machines, over TLS and to those who have an
// access token.
type listening struct{ server *http.Server }

// start does nothing without an address.
func (l *listening) start(how command.Listening, home string, pages *dashboardServer, log *slog.Logger) error {
	if how.Address == "" {
		return nil
	}
	certificate, err := how.Open(home)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", how.Address)
	if err != nil {
		return fmt.Errorf("listen beyond this machine: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	l.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		TLSConfig: certificate.Config(), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Handler: door.New(door.Options{Tokens: door.TokensIn(home), Reads: dashboard.Reads, Port: port, Sessions: pages.sessions,
			Certificate: certificate, Inside: fromElsewhere(pages.within)})}
	go l.server.ServeTLS(listener, "", "") //nolint:errcheck // it always ends with ErrServerClosed
	log.Info("listening beyond this machine", "address", listener.Addr().String(), "certificate", certificate.Fingerprint())
	if how.Told != nil {
		how.Told(listener.Addr().String(), certificate.Fingerprint())
	}
	return nil
}

// fromElsewhere leaves out what makes sense on the host's own machine only: links into
// Temporal's Web UI, and ports for NNI's clients.
func fromElsewhere(inside http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", inside)
	for _, path := range []string{dashboard.APIPath + "/experiments/{experiment}/temporal", nniPortsPath} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "this is there for those who are on the host's own machine", http.StatusNotFound)
		})
	}
	return mux
}

// stop may be called without a start.
func (l *listening) stop() {
	if l.server != nil {
		l.server.Close()
	}
}
