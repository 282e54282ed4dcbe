package supervisor

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// users are those who speak to the API server, with their name and groups there.
var users = map[string]string{
	"admin":       `admin,1,"system:masters"`,
	"controllers": `system:kube-controller-manager,2`,
	"scheduler":   `system:kube-scheduler,3`,
	"kubelet":     `system:node:node,4,"system:nodes"`,
}

// token is that of a user. The API server listens on a network that only this
// machine reaches, and only for as long as a test.
func (s *Supervisor) token(user string) string { return s.Secret + "-" + user }

// writeKeys writes the tokens, and the keys that sign service accounts' tokens.
func (s *Supervisor) writeKeys() error {
	var tokens bytes.Buffer
	for user, identity := range users {
		fmt.Fprintf(&tokens, "%s,%s\n", s.token(user), identity)
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	return errors.Join(err, os.WriteFile(s.path("tokens.csv"), tokens.Bytes(), 0o600),
		os.WriteFile(s.path("sa.key"), encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), 0o600),
		os.WriteFile(s.path("sa.pub"), encode("PUBLIC KEY", public), 0o644))
}

// servingKeys are what operators' webhooks serve with, PEM by the names of the
// files that they look for. The names in the certificates are those that the
// training-operator's own rotation would write: finding others it makes all anew.
func servingKeys() (map[string][]byte, error) {
	root, err := certificate("training-operator-ca", nil, nil)
	if err != nil {
		return nil, err
	}
	leaf, err := certificate("training-operator.kubeflow.svc", []net.IP{net.IPv4(127, 0, 0, 1)}, root)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"ca.crt": encode("CERTIFICATE", root.der), "ca.key": encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(root.key)),
		"tls.crt": encode("CERTIFICATE", leaf.der), "tls.key": encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(leaf.key))}, nil
}

type signed struct {
	template *x509.Certificate
	der      []byte
	key      *rsa.PrivateKey
}

// certificate makes one, signed by the other, or an authority's own.
func certificate(name string, addresses []net.IP, by *signed) (*signed, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"training-operator"}},
		DNSNames: []string{name}, IPAddresses: addresses, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	made := &signed{template: template, key: key}
	if by == nil {
		by = made
		template.IsCA, template.KeyUsage = true, template.KeyUsage|x509.KeyUsageCertSign
	}
	made.der, err = x509.CreateCertificate(rand.Reader, template, by.template, &key.PublicKey, by.key)
	return made, err
}

func encode(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}
