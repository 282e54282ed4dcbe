package embedded

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/rpc/encryption"
)

// bearer is the token that makes a caller the administrator; without it a
// caller has no claim at all.
type bearer string

func (b bearer) header() string { return "Bearer " + string(b) }

func (b bearer) matches(header string) bool {
	return subtle.ConstantTimeCompare([]byte(header), []byte(b.header())) == 1
}

// GetClaims implements authorization.ClaimMapper.
func (b bearer) GetClaims(caller *authorization.AuthInfo) (*authorization.Claims, error) {
	if !b.matches(caller.AuthToken) {
		return &authorization.Claims{}, nil
	}
	return &authorization.Claims{Subject: "owner", System: authorization.RoleAdmin}, nil
}

// internodeIdentity makes Temporal's services know each other by a certificate
// that lives in this process only. Their ports know no token: without it any
// local user could walk past the frontend, into the internal frontend say.
type internodeIdentity struct {
	server, client *tls.Config
}

var _ encryption.TLSConfigProvider = (*internodeIdentity)(nil)

func newInternodeIdentity() (*internodeIdentity, error) {
	certificate, authority, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("certificate between Temporal's services: %w", err)
	}
	both := []tls.Certificate{certificate}
	return &internodeIdentity{
		server: &tls.Config{
			Certificates: both,
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    authority,
			MinVersion:   tls.VersionTLS13,
		},
		client: &tls.Config{
			Certificates: both,
			RootCAs:      authority,
			ServerName:   loopback,
			MinVersion:   tls.VersionTLS13,
		},
	}, nil
}

func selfSigned() (tls.Certificate, *x509.CertPool, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		IPAddresses:           []net.IP{net.ParseIP(loopback)},
		NotBefore:             now.AddDate(-1, 0, 0),
		NotAfter:              now.AddDate(100, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	authority := x509.NewCertPool()
	authority.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, authority, nil
}

// GetInternodeServerConfig implements encryption.TLSConfigProvider.
func (i *internodeIdentity) GetInternodeServerConfig() (*tls.Config, error) { return i.server, nil }

// GetInternodeClientConfig implements encryption.TLSConfigProvider.
func (i *internodeIdentity) GetInternodeClientConfig() (*tls.Config, error) { return i.client, nil }

// GetFrontendServerConfig leaves the frontend without TLS: it is guarded by the
// token and bound to loopback.
func (i *internodeIdentity) GetFrontendServerConfig() (*tls.Config, error) { return nil, nil }

// GetFrontendClientConfig implements encryption.TLSConfigProvider.
func (i *internodeIdentity) GetFrontendClientConfig() (*tls.Config, error) { return nil, nil }

// GetRemoteClusterClientConfig implements encryption.TLSConfigProvider.
func (i *internodeIdentity) GetRemoteClusterClientConfig(string) (*tls.Config, error) {
	return nil, nil
}

// GetExpiringCerts reports none: the certificate outlives the process.
func (i *internodeIdentity) GetExpiringCerts(time.Duration) (expiring, expired encryption.CertExpirationMap, err error) {
	return nil, nil, nil
}
