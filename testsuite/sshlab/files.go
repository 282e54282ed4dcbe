package sshlab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Keys of the controller, files in Home/.ssh. Hosts know all but StrangeKey.
const (
	Key          = "id_ed25519"
	EncryptedKey = "id_encrypted" // opened by Passphrase
	StrangeKey   = "id_strange"
)

// KeyFile is the path of one of the controller's keys.
func (l *Lab) KeyFile(name string) string { return filepath.Join(l.Home, ".ssh", name) }

// KnownHosts is the controller's file of host keys. It has one key of each host,
// as OpenSSH writes it, of the two that hosts offer.
func (l *Lab) KnownHosts() string { return filepath.Join(l.Home, ".ssh", "known_hosts") }

// hostKeys are a host's; the first is the one that the controller knows.
type hostKeys [2]crypto.Signer

func newHostKeys() (keys hostKeys, err error) {
	_, first, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keys, err
	}
	second, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return hostKeys{first, second}, err
}

// writeKey writes a private key and, beside it, the public one.
func writeKey(path string, key crypto.Signer, passphrase string) (err error) {
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "sshlab")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "sshlab", []byte(passphrase))
	}
	if err != nil {
		return err
	}
	public, err := authorized(key)
	return errors.Join(err, os.WriteFile(path, pem.EncodeToMemory(block), 0o600), os.WriteFile(path+".pub", []byte(public), 0o644))
}

func authorized(key crypto.Signer) (string, error) {
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return "", err
	}
	return string(ssh.MarshalAuthorizedKey(public)), nil
}

// writeClient writes the controller's .ssh: once all hosts are there.
func (l *Lab) writeClient() error {
	var known, config strings.Builder
	fmt.Fprintf(&config, "Host *\n  User %s\n  IdentityFile %s\n  UserKnownHostsFile %s\n  IdentitiesOnly yes\n", l.user(), l.KeyFile(Key), l.KnownHosts())
	for _, h := range l.Hosts {
		public, err := authorized(h.key[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(&known, "%s %s", h.knownName(), public)
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n  Port %d\n", h.Name, h.Address, h.Port)
		if h.Behind != "" {
			fmt.Fprintf(&config, "  ProxyJump %s\n", h.Behind)
		}
	}
	return errors.Join(os.WriteFile(l.KnownHosts(), []byte(known.String()), 0o600),
		os.WriteFile(filepath.Join(l.Home, ".ssh", "config"), []byte(config.String()), 0o600))
}

func (l *Lab) user() string {
	if len(l.Hosts) > 0 {
		return l.Hosts[0].User
	}
	return User
}

// knownName is the host's name in known_hosts.
func (h *Host) knownName() string {
	if h.Port == 22 {
		return h.Address
	}
	return fmt.Sprintf("[%s]:%d", h.Address, h.Port)
}

// ChangeHostKeys gives the host others than the controller knows, as somebody in
// between would have.
func (h *Host) ChangeHostKeys() {
	h.PowerOff()
	keys, err := newHostKeys()
	h.lab.must(err)
	h.lab.must(h.writeHostKeys(keys))
	h.PowerOn()
}

// Forget takes the host out of the controller's known_hosts.
func (h *Host) Forget() {
	content, err := os.ReadFile(h.lab.KnownHosts())
	h.lab.must(err)
	var kept strings.Builder
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, h.knownName()+" ") {
			kept.WriteString(line)
		}
	}
	h.lab.must(os.WriteFile(h.lab.KnownHosts(), []byte(kept.String()), 0o600))
}

func (h *Host) writeHostKeys(keys hostKeys) error {
	h.key = keys
	return errors.Join(writeKey(h.etc("host_ed25519"), keys[0], ""), writeKey(h.etc("host_ecdsa"), keys[1], ""))
}

// makeDirectories makes everything that the host finds of its own when it boots.
func (h *Host) makeDirectories() error {
	if err := errors.Join(os.MkdirAll(h.etc("programs"), 0o755), h.makeHome()); err != nil {
		return err
	}
	keys, err := newHostKeys()
	if err != nil {
		return err
	}
	authorizedKeys, err := h.lab.clientKeys()
	if err != nil {
		return err
	}
	return errors.Join(h.writeHostKeys(keys), os.WriteFile(h.etc("authorized_keys"), []byte(authorizedKeys), 0o644),
		h.writeConfig(), h.writeAccounts(), h.writePrograms())
}

// makeHome makes home and temporary directories anew.
func (h *Host) makeHome() error {
	for name, mode := range map[string]os.FileMode{"home": 0o755, "tmp": 0o777 | os.ModeSticky, "vartmp": 0o777 | os.ModeSticky} {
		path := filepath.Join(h.directory(), name)
		if err := errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o755), os.Chmod(path, mode)); err != nil {
			return err
		}
	}
	home := filepath.Join(h.directory(), "home", User)
	return errors.Join(os.Mkdir(home, 0o700), os.Chown(home, uid, uid))
}

// clientKeys makes the controller's keys if there are none and returns the public
// ones that hosts know.
func (l *Lab) clientKeys() (string, error) {
	var known strings.Builder
	for name, passphrase := range map[string]string{Key: "", EncryptedKey: Passphrase, StrangeKey: ""} {
		path := l.KeyFile(name)
		if _, err := os.Stat(path); err != nil {
			_, key, _ := ed25519.GenerateKey(rand.Reader)
			if err := writeKey(path, key, passphrase); err != nil {
				return "", err
			}
		}
		public, err := os.ReadFile(path + ".pub")
		if err != nil {
			return "", err
		}
		if name != StrangeKey {
			known.Write(public)
		}
	}
	return known.String(), nil
}

// writeConfig writes sshd's configuration. The host sees the directory it lies in
// by another name, unless it has no namespaces.
func (h *Host) writeConfig() error {
	directory, variables := "/run/lab", h.set
	if h.own != "" {
		directory, variables = h.etc(""), append([]string{"HOME=" + h.own}, h.set...)
	}
	config := h.sshdConfig(directory)
	if h.own != "" {
		config += fmt.Sprintf("ListenAddress 127.0.0.1:%d\n", h.port)
	}
	if len(variables) > 0 { // of several such lines only the first would count
		config += "SetEnv " + strings.Join(variables, " ") + "\n"
	}
	return os.WriteFile(h.etc("sshd_config"), []byte(config), 0o600)
}

func (h *Host) sshdConfig(directory string) string {
	lines := []string{"HostKey " + directory + "/host_ed25519", "HostKey " + directory + "/host_ecdsa",
		"AuthorizedKeysFile " + directory + "/authorized_keys", "StrictModes no", "UsePAM no", "PidFile none", "PrintMotd no",
		"KbdInteractiveAuthentication no", "MaxStartups 100:30:200", "LogLevel VERBOSE", "Subsystem sftp internal-sftp"}
	password := "no"
	if h.Password != "" {
		password = "yes"
	}
	return strings.Join(append(lines, "PasswordAuthentication "+password), "\n") + "\n"
}

// writeAccounts writes the machine's accounts and User's for the host to see.
func (h *Host) writeAccounts() error {
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	group, err := os.ReadFile("/etc/group")
	if err != nil {
		return err
	}
	hash, err := h.passwordHash()
	if err != nil {
		return err
	}
	shell := h.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	return errors.Join(
		os.WriteFile(h.etc("passwd"), fmt.Appendf(passwd, "%s:x:%d:%d::/home/%s:%s\n", User, uid, uid, User, shell), 0o644),
		os.WriteFile(h.etc("group"), fmt.Appendf(group, "%s:x:%d:\n", User, uid), 0o644),
		os.WriteFile(h.etc("shadow"), fmt.Appendf(nil, "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n%s:%s:19000:0:99999:7:::\n", User, hash), 0o600),
		os.WriteFile(h.etc("machine-id"), []byte(randomHex(16)+"\n"), 0o444))
}

// passwordHash is the entry for the password in /etc/shadow; "*" is no password,
// and no locked account either.
func (h *Host) passwordHash() (string, error) {
	if h.Password == "" {
		return "*", nil
	}
	// Debian is never without this program.
	out, err := exec.Command("perl", "-e", `print crypt($ARGV[0], "\$6\$sshlab\$")`, h.Password).Output()
	return strings.TrimSpace(string(out)), err
}

func (h *Host) writePrograms() error {
	for name, script := range h.Programs {
		if err := os.WriteFile(filepath.Join(h.etc("programs"), name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	if len(h.Programs) == 0 {
		return os.RemoveAll(h.etc("programs"))
	}
	return nil
}

func (h *Host) writeBootID() error {
	id := randomHex(16)
	id = strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	return os.WriteFile(h.etc("boot_id"), []byte(id+"\n"), 0o444)
}

func randomHex(bytes int) string {
	content := make([]byte, bytes)
	_, _ = rand.Read(content)
	return hex.EncodeToString(content)
}
