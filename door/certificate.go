package door

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Certificate is what a door beyond loopback shows. Its files are read at each connection,
// so that a renewed one is shown at once; one that cannot be read changes nothing.
type Certificate struct {
	certificate, key string
	last             atomic.Pointer[tls.Certificate]
}

// OpenCertificate reads a certificate and its key from PEM files.
func OpenCertificate(certificate, key string) (*Certificate, error) {
	c := &Certificate{certificate: certificate, key: key}
	if _, err := c.read(); err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certificate, key, err)
	}
	return c, nil
}

func (c *Certificate) read() (*tls.Certificate, error) {
	read, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return nil, err
	}
	c.last.Store(&read)
	return &read, nil
}

func (c *Certificate) current() *tls.Certificate {
	if read, err := c.read(); err == nil {
		return read
	}
	return c.last.Load()
}

// Config has a server show the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil }}
}

// Covers tells whether the certificate is for a host, with or without a port: no page
// elsewhere can have such a name lead here.
func (c *Certificate) Covers(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return c.current().Leaf.VerifyHostname(strings.Trim(host, "[]")) == nil
}

// Fingerprint is the certificate's SHA-256, as browsers and openssl show it.
func (c *Certificate) Fingerprint() string {
	sum := sha256.Sum256(c.current().Leaf.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
}

// madeFile has the certificate and the key that are made for a state directory.
const madeFile = "certificate.pem"

// madeFor is how long a made certificate holds.
const madeFor = 10 * 365 * 24 * time.Hour

// MadeCertificate returns the certificate that a state directory has made for itself, the
// same each time, for the names and addresses of this machine. One is made where there is
// none that holds for a host, which may be empty.
func MadeCertificate(home, host string) (*Certificate, error) {
	file := filepath.Join(home, madeFile)
	if made, err := OpenCertificate(file, file); err == nil && made.holds(host) {
		return made, nil
	}
	content, err := selfSigned(namesOf(host))
	if err == nil {
		err = writeWhole(file, content)
	}
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return OpenCertificate(file, file)
}

func (c *Certificate) holds(host string) bool {
	return time.Now().Before(c.current().Leaf.NotAfter) && (host == "" || c.Covers(host))
}

// namesOf are the names and addresses of this machine, and the one that is meant.
func namesOf(host string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil && name != "" {
		names = append(names, name)
	}
	addresses, _ := net.InterfaceAddrs() // without them the names above are left
	for _, address := range addresses {
		if network, is := address.(*net.IPNet); is && network.IP.IsGlobalUnicast() {
			names = append(names, network.IP.String())
		}
	}
	if host != "" {
		names = append(names, host)
	}
	return names
}

// selfSigned makes a key and a certificate for it, both as PEM.
func selfSigned(names []string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: "Perennial"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(madeFor), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return encode(template, key)
}

func encode(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// writeWhole has a file, which only its owner can read, appear whole or not at all.
func writeWhole(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it has another name by then
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}
