package command

import (
	"cmp"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/perennial-ml/perennial/door"
)

// Listening says how a host shall serve the dashboard and the API beyond loopback. The zero
// value has it not do so.
type Listening struct {
	Address          string // host:port or :port
	Certificate, Key string // PEM files; the host has made one of its own without them
	// Told, if not nil, is called with the address, and the fingerprint of the certificate,
	// once the host listens there.
	Told func(address, fingerprint string)
}

// Open returns the certificate to show.
func (l Listening) Open(home string) (*door.Certificate, error) {
	if (l.Certificate == "") != (l.Key == "") {
		return nil, badInput("--tls-cert and --tls-key, or PERENNIAL_TLS_CERT and PERENNIAL_TLS_KEY", "a certificate and its key are given together")
	}
	host, _, err := net.SplitHostPort(l.Address)
	if err != nil {
		return nil, badInput("--listen :8443 or --listen train.example.org:8443", "%q is no address to listen at: %w", l.Address, err)
	}
	if l.Certificate != "" {
		certificate, err := door.OpenCertificate(l.Certificate, l.Key)
		if err != nil {
			return nil, badInput("PEM files, the certificate's own first; without them the host makes one", "%w", err)
		}
		return certificate, nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	return door.MadeCertificate(home, host)
}

func (l *Listening) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.Address, "listen", "", "serve the dashboard and the API to other machines at this `ADDRESS`, such as :8443")
	cmd.Flags().StringVar(&l.Certificate, "tls-cert", "", "the certificate to show there, a PEM `FILE`; without, one is made")
	cmd.Flags().StringVar(&l.Key, "tls-key", "", "its key, a PEM `FILE`")
}

// listening is what a command asks for, completed by the environment, which hosts in the
// background have, too.
func (w World) listening(asked Listening) Listening {
	asked.Address = cmp.Or(asked.Address, w.Getenv("PERENNIAL_LISTEN"))
	asked.Certificate = cmp.Or(asked.Certificate, w.Getenv("PERENNIAL_TLS_CERT"))
	asked.Key = cmp.Or(asked.Key, w.Getenv("PERENNIAL_TLS_KEY"))
	return asked
}

// checkListening refuses what cannot be listened with, and what nobody could come in by.
func (w World) checkListening(asked Listening) error {
	how := w.listening(asked)
	if how.Address == "" && asked.Certificate == "" && asked.Key == "" {
		return nil
	}
	if _, err := how.Open(w.Home); err != nil {
		return err
	}
	tokens, err := door.TokensIn(w.Home).List()
	if err == nil && len(tokens) == 0 && asked.Address != "" { // a host that comes back by itself shall come back
		err = badInput("starter token create --read-only makes one, to look and not to touch", "--listen %s: nobody could come in, since there is no access token", how.Address)
	}
	return err
}

// listens tells where the host is reached from other machines.
func (w World) listens(address, fingerprint string) {
	fmt.Fprintf(w.Out, "other machines reach it at https://%s\n  certificate, SHA-256  %s\n", address, fingerprint)
}
