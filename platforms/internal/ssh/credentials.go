package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// mostKeys is how many keys are offered: sshd hangs up at the sixth that it does
// not know.
const mostKeys = 5

// agentVariable tells where the user's agent listens.
const agentVariable = "SSH_AUTH_SOCK"

// credentials are what lets us in.
type credentials struct {
	methods []ssh.AuthMethod
	tried   []string // for people: which password or keys
	locked  []string // key files that need a passphrase
	agent   net.Conn // nil where no agent is asked
}

// newCredentials collects a password, or keys: the named one, else those of the
// agent and of the configuration's files.
func newCredentials(target Target, settings settings) (*credentials, error) {
	c := &credentials{}
	if target.Password != "" {
		c.password(target.Password)
		return c, nil
	}
	signers, err := c.signers(target, settings)
	if err != nil {
		c.close()
		return nil, err
	}
	if len(signers) == 0 {
		c.close()
		return nil, c.nothing(target)
	}
	c.methods = []ssh.AuthMethod{ssh.PublicKeys(signers[:min(len(signers), mostKeys)]...)}
	return c, nil
}

func (c *credentials) close() {
	if c.agent != nil {
		c.agent.Close()
	}
}

// password also answers servers that ask for it as a dialogue.
func (c *credentials) password(password string) {
	c.tried = []string{"the password"}
	dialogue := func(_, _ string, questions []string, echos []bool) ([]string, error) {
		answers := make([]string, len(questions))
		for i := range questions {
			if !echos[i] {
				answers[i] = password
			}
		}
		return answers, nil
	}
	c.methods = []ssh.AuthMethod{ssh.Password(password), ssh.KeyboardInteractive(dialogue)}
}

func (c *credentials) signers(target Target, settings settings) ([]ssh.Signer, error) {
	held := c.held(target, settings)
	if target.KeyFile != "" {
		signer, err := c.fromFile(target.KeyFile, target.Passphrase, held)
		if err != nil {
			return nil, errorf(Denied, "%s: %w", target, err)
		}
		return []ssh.Signer{signer}, nil
	}
	signers := c.configured(target, settings, held)
	if settings.first("identitiesonly") == "yes" {
		return signers, nil
	}
	for _, signer := range held {
		if find(signers, signer.PublicKey()) == nil {
			signers = append(signers, signer)
			c.tried = append(c.tried, "a key of the ssh agent")
		}
	}
	return signers, nil
}

// configured are the keys in the files that the configuration names. One of ssh's
// own choice that is of no use is passed over, as ssh does.
func (c *credentials) configured(target Target, settings settings, held []ssh.Signer) (signers []ssh.Signer) {
	for _, file := range settings.existing("identityfile") {
		if signer, err := c.fromFile(file, target.Passphrase, held); err == nil {
			signers = append(signers, signer)
		}
	}
	return signers
}

// held are the keys of the user's agent, none where it cannot be asked. The agent
// of a login that is over is gone; then that of whoever started this process may do.
func (c *credentials) held(target Target, settings settings) []ssh.Signer {
	sockets := []string{target.AgentSocket, os.Getenv(agentVariable)}
	named := settings.expand(settings.first("identityagent"))
	if named == "none" {
		return nil
	}
	if named != "" && named != agentVariable {
		sockets = []string{os.ExpandEnv(named)}
	}
	for _, socket := range sockets {
		connection, err := net.Dial("unix", socket)
		if err != nil {
			continue
		}
		signers, err := agent.NewClient(connection).Signers()
		if err == nil {
			c.agent = connection
			return signers
		}
		connection.Close()
	}
	return nil
}

// fromFile reads a private key, or takes the agent's copy where it is locked.
func (c *credentials) fromFile(file, passphrase string, held []ssh.Signer) (ssh.Signer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the key file cannot be read: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(content)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		signer, err = c.unlock(file, content, passphrase, find(held, locked.PublicKey))
	}
	if err != nil {
		return nil, fmt.Errorf("the key file %s: %w", file, err)
	}
	c.tried = append(c.tried, "the key "+file)
	return signer, nil
}

func (c *credentials) unlock(file string, content []byte, passphrase string, held ssh.Signer) (ssh.Signer, error) {
	if held != nil {
		return held, nil
	}
	if passphrase == "" {
		c.locked = append(c.locked, file)
		return nil, errors.New("it needs a passphrase: give it as sshPassphrase, or add the key to the ssh agent by ssh-add")
	}
	signer, err := ssh.ParsePrivateKeyWithPassphrase(content, []byte(passphrase))
	if err != nil {
		return nil, errors.New("sshPassphrase does not open it")
	}
	return signer, nil
}

// find returns the signer of a public key, nil if there is none.
func find(signers []ssh.Signer, public ssh.PublicKey) ssh.Signer {
	if public == nil {
		return nil
	}
	for _, signer := range signers {
		if bytes.Equal(signer.PublicKey().Marshal(), public.Marshal()) {
			return signer
		}
	}
	return nil
}

// nothing explains that there is no way to log in.
func (c *credentials) nothing(target Target) error {
	if len(c.locked) > 0 {
		return errorf(Denied, "%s: the key %s needs a passphrase: give it as sshPassphrase, or add it to the ssh agent by ssh-add",
			target, strings.Join(c.locked, ", "))
	}
	return errorf(Denied, "%s: there is no key to log in with: name one as sshKeyFile, make one by ssh-keygen, or give a password", target)
}

// refused tells whether a handshake failed because nothing let us in.
func (c *credentials) refused(err error) bool {
	return strings.Contains(err.Error(), "unable to authenticate") || strings.Contains(err.Error(), "too many authentication failures") ||
		strings.Contains(strings.ToLower(err.Error()), "permission denied")
}

// advice continues "user@host …".
func (c *credentials) advice(target Target) string {
	if target.Password != "" {
		return "refuses the password: mend it, or use a key"
	}
	file := target.KeyFile
	if file == "" {
		file = "~/.ssh/id_ed25519"
	}
	copyID := strings.Replace(target.command(), "ssh ", "ssh-copy-id -i "+file+" ", 1)
	return fmt.Sprintf("refuses %s: run %s once, or name the right user and key", strings.Join(c.tried, ", "), copyID)
}
