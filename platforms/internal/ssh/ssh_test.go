package ssh

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

func target(lab *sshlab.Lab) Target {
	return Target{Host: lab.Hosts[0].Name, ConfigFile: filepath.Join(lab.Home, ".ssh", "config")}
}

func dial(t *testing.T, to Target) *Connection {
	t.Helper()
	connection, err := Dial(t.Context(), to)
	require.NoError(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func requireRefused(t *testing.T, to Target, kind Kind, words ...string) {
	t.Helper()
	_, err := Dial(t.Context(), to)
	require.Error(t, err)
	require.Equal(t, kind, KindOf(err), "%v", err)
	for _, word := range words {
		require.ErrorContains(t, err, word)
	}
}

func TestACommandReadsAndWritesAndItsFailureSaysWhatItSaid(t *testing.T) {
	connection := dial(t, target(sshlab.One(t, sshlab.Spec{})))
	output, err := connection.Run(t.Context(), "exec tr a-z A-Z", strings.NewReader("loud"))
	require.NoError(t, err)
	require.Equal(t, "LOUD", string(output))
	_, err = connection.Run(t.Context(), "echo first >&2; echo then >&2; exit 7", strings.NewReader(""))
	var failed *Failure
	require.ErrorAs(t, err, &failed)
	require.Equal(t, Failure{Code: 7, Said: "first; then"}, *failed)
}

func TestMoreCommandsAtOnceThanSshdAllowsWaitForEachOther(t *testing.T) {
	connection := dial(t, target(sshlab.One(t, sshlab.Spec{})))
	results := make(chan error)
	for range 24 {
		go func() {
			_, err := connection.Run(t.Context(), "sleep 0.05", strings.NewReader(""))
			results <- err
		}()
	}
	for range 24 {
		require.NoError(t, <-results)
	}
}

func TestACommandEndsWithItsContext(t *testing.T) {
	connection := dial(t, target(sshlab.One(t, sshlab.Spec{})))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := connection.Run(ctx, "sleep 3600", strings.NewReader(""))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = connection.Run(t.Context(), "true", strings.NewReader(""))
	require.NoError(t, err)
}

func TestAClosedConnectionIsDoneAndWhateverRunsOnItIsLost(t *testing.T) {
	connection := dial(t, target(sshlab.One(t, sshlab.Spec{})))
	process, err := connection.Start(t.Context(), "exec cat")
	require.NoError(t, err)
	connection.Close()
	<-connection.Done()
	_, err = io.ReadAll(process.Stdout)
	if err == nil {
		err = process.Wait(t.Context())
	}
	require.Error(t, err)
	_, err = connection.Start(t.Context(), "true")
	require.Equal(t, Unreachable, KindOf(err))
}

func TestAHostWhoseKeyIsUnknownIsRefusedWithTheLineThatAcceptsIt(t *testing.T) {
	lab := sshlab.One(t, sshlab.Spec{})
	lab.Hosts[0].Forget()
	_, err := Dial(t.Context(), target(lab))
	require.Equal(t, Untrusted, KindOf(err))
	require.ErrorContains(t, err, "SHA256:")
	_, command, found := strings.Cut(err.Error(), "accept it by\n  echo '")
	require.True(t, found, err)
	line, file, found := strings.Cut(command, "' >> ")
	require.True(t, found)
	require.Equal(t, lab.KnownHosts(), file)
	known, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = known.WriteString(line + "\n")
	require.NoError(t, err)
	require.NoError(t, known.Close())
	dial(t, target(lab))
}

func TestAHostWhoseKeyChangedIsRefused(t *testing.T) {
	lab := sshlab.One(t, sshlab.Spec{})
	known, err := os.ReadFile(lab.KnownHosts())
	require.NoError(t, err)
	another, err := os.ReadFile(lab.KeyFile(sshlab.StrangeKey) + ".pub")
	require.NoError(t, err)
	name, _, _ := strings.Cut(string(known), " ")
	require.NoError(t, os.WriteFile(lab.KnownHosts(), []byte(name+" "+string(another)), 0o600))
	requireRefused(t, target(lab), Untrusted, "has changed", "ssh-keygen -f "+lab.KnownHosts()+" -R")
}

func TestAKeyThatOpensNothingIsNamedWithTheWayToAddIt(t *testing.T) {
	lab := sshlab.One(t, sshlab.Spec{})
	to := target(lab)
	to.KeyFile = lab.KeyFile(sshlab.StrangeKey)
	requireRefused(t, to, Denied, to.KeyFile, "ssh-copy-id -i "+to.KeyFile)
	to.KeyFile = filepath.Join(t.TempDir(), "none")
	requireRefused(t, to, Denied, to.KeyFile, "no such file")
}

func TestAKeyWithAPassphraseOpensWithItOrByTheAgent(t *testing.T) {
	lab := sshlab.One(t, sshlab.Spec{})
	to := target(lab)
	to.KeyFile = lab.KeyFile(sshlab.EncryptedKey)
	requireRefused(t, to, Denied, "sshPassphrase", "ssh-add")
	to.Passphrase = "wrong words"
	_, err := Dial(t.Context(), to)
	require.ErrorContains(t, err, "sshPassphrase does not open it")
	require.NotContains(t, err.Error(), "wrong words")
	to.Passphrase = sshlab.Passphrase
	dial(t, to)
	to.Passphrase, to.AgentSocket = "", agentWith(t, to.KeyFile)
	dial(t, to)
}

func TestTheAgentsKeysAreTriedWhereNoKeyIsNamed(t *testing.T) {
	lab := sshlab.One(t, sshlab.Spec{})
	to := target(lab)
	config := filepath.Join(t.TempDir(), "config")
	content, err := os.ReadFile(to.ConfigFile)
	require.NoError(t, err)
	without := strings.NewReplacer("IdentitiesOnly yes", "IdentitiesOnly no", lab.KeyFile(sshlab.Key), "/nonexistent/key").Replace(string(content))
	require.NoError(t, os.WriteFile(config, []byte(without), 0o600))
	to.ConfigFile = config
	requireRefused(t, to, Denied, "there is no key to log in with")
	to.AgentSocket = agentWith(t, lab.KeyFile(sshlab.EncryptedKey))
	dial(t, to)
}

// agentWith serves an ssh agent that holds a key, and returns its socket.
func agentWith(t *testing.T, file string) string {
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	key, err := ssh.ParseRawPrivateKeyWithPassphrase(content, []byte(sshlab.Passphrase))
	require.NoError(t, err)
	ring := agent.NewKeyring()
	require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	directory, err := os.MkdirTemp("", "agent-") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(directory) })
	socket := filepath.Join(directory, "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(ring, connection)
		}
	}()
	return socket
}

func TestAMachineThatIsNotThereIsUnreachableAndAMadeUpNameIsWrong(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	key := sshlab.One(t, sshlab.Spec{}).KeyFile(sshlab.Key)
	requireRefused(t, Target{Host: "127.0.0.1", Port: port, KeyFile: key, ConfigFile: "/dev/null"}, Unreachable, "connection refused")
	requireRefused(t, Target{Host: "-oProxyCommand=touch x", KeyFile: key}, Wrong, "is no name or address")
}

func TestAPasswordIsNeverPartOfWhatIsSaid(t *testing.T) {
	to := target(sshlab.One(t, sshlab.Spec{}))
	to.Password = "open sesame"
	_, err := Dial(t.Context(), to)
	require.Equal(t, Denied, KindOf(err))
	require.ErrorContains(t, err, "refuses the password")
	require.NotContains(t, err.Error(), "sesame")
}

const configuration = `
Host gpu
  HostName gpu.example.org
  Port 2222
  User ada
  IdentityFile %s
  UserKnownHostsFile "%s"
  HostKeyAlias gpu-cluster
  ProxyJump bob@gate:2022,ssh://inner
Host odd
  ProxyCommand nc %%h %%p
`

func writeConfiguration(t *testing.T) (Target, string) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	config := filepath.Join(t.TempDir(), "config")
	content := strings.Replace(strings.Replace(configuration, "%s", file, 2), "%%", "%", -1)
	require.NoError(t, os.WriteFile(config, []byte(content), 0o600))
	return Target{Host: "gpu", ConfigFile: config, AgentSocket: "/agent", Password: "secret"}, file
}

func requireConfiguration(t *testing.T) {
	t.Helper()
	to, file := writeConfiguration(t)
	found, err := resolve(t.Context(), to)
	require.NoError(t, err)
	require.Equal(t, "gpu.example.org:2222", found.address())
	require.Equal(t, "ada", found.user)
	require.Equal(t, []string{file}, found.existing("identityfile"))
	require.Equal(t, []string{file}, found.existing("userknownhostsfile"))
	require.Equal(t, "gpu-cluster", found.first("hostkeyalias"))
	hops := found.jumps(to)
	require.Equal(t, []Target{
		{Host: "gate", Port: 2022, User: "bob", ConfigFile: to.ConfigFile, AgentSocket: "/agent"},
		{Host: "inner", ConfigFile: to.ConfigFile, AgentSocket: "/agent"},
	}, hops, "with what lets us in there, and never with the target's password")
	to.Port, to.User = 22, "eve"
	found, err = resolve(t.Context(), to)
	require.NoError(t, err)
	require.Equal(t, "gpu.example.org:22", found.address())
	require.Equal(t, "eve", found.user)
	to.Host = "odd"
	_, err = resolve(t.Context(), to)
	require.ErrorContains(t, err, "use ProxyJump")
}

func TestTheUsersConfigurationIsAskedOfSsh(t *testing.T) { requireConfiguration(t) }

func TestTheUsersConfigurationIsReadWhereThereIsNoSsh(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	requireConfiguration(t)
}

func TestAJumpHostThatNamesItselfIsWrong(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(config, []byte("Host ring\n  ProxyJump ring\n"), 0o600))
	_, err := Dial(t.Context(), Target{Host: "ring", ConfigFile: config})
	require.Equal(t, Wrong, KindOf(err), "%v", err)
}
