package ssh

import (
	"errors"
	"net"
	"path/filepath"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// trust decides whether a machine is the one that is meant.
type trust struct {
	target     Target
	settings   settings
	address    string // the machine's name in known_hosts
	known      *knownhosts.HostKeyDB
	algorithms []string
	fault      error // why the last key was refused
}

// newTrust reads the user's known hosts. Keys are asked for in the kinds that are
// known: a machine offers several.
func newTrust(target Target, settings settings) (*trust, error) {
	files := append(settings.existing("userknownhostsfile"), settings.existing("globalknownhostsfile")...)
	known, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, errorf(Wrong, "%s: the known hosts cannot be read: %w", target, err)
	}
	t := &trust{target: target, settings: settings, address: settings.address(), known: known}
	if alias := settings.first("hostkeyalias"); alias != "" {
		t.address = net.JoinHostPort(alias, "22")
	}
	t.algorithms = known.HostKeyAlgorithms(t.address)
	if len(t.algorithms) == 0 {
		t.algorithms = preferred
	}
	return t, nil
}

// preferred are the kinds of keys in the order of OpenSSH, for a machine of which
// none is known: the first has the shortest keys, for people to copy.
var preferred = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}

// check is an ssh.HostKeyCallback.
func (t *trust) check(name string, remote net.Addr, key ssh.PublicKey) error {
	err := t.known.HostKeyCallback()(name, remote, key)
	switch {
	case err == nil:
		return nil
	case knownhosts.IsHostKeyChanged(err):
		t.fault = errorf(Untrusted, "the key of %s has changed: it shows another key than it used to, %s; somebody may be listening in; "+
			"if the machine was installed anew, run ssh-keygen -f %s -R '%s' and then accept its new key",
			t.target, ssh.FingerprintSHA256(key), t.file(), knownhosts.Normalize(t.address))
	case knownhosts.IsHostUnknown(err):
		t.fault = errorf(Untrusted, "the key of %s is not known, %s %s: if it is the right one, accept it by\n  echo '%s' >> %s",
			t.target, key.Type(), ssh.FingerprintSHA256(key), knownhosts.Line([]string{t.address}, key), t.file())
	default:
		t.fault = errorf(Untrusted, "%s: its key is refused: %w", t.target, err)
	}
	return errors.Join(err, t.fault)
}

// file is where accepted keys go.
func (t *trust) file() string {
	if files := t.settings.all["userknownhostsfile"]; len(files) > 0 {
		first := firstWord(files[0])
		if first != "" && first != "none" {
			return t.settings.expand(first)
		}
	}
	return filepath.Join(home(), ".ssh", "known_hosts")
}

func firstWord(text string) string {
	for i, c := range text {
		if c == ' ' || c == '\t' {
			return text[:i]
		}
	}
	return text
}
