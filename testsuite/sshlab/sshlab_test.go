package sshlab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// killedVariable makes the test binary a process that brings up a lab, says
// which, and waits to be killed.
const killedVariable = "SSHLAB_TEST_KILLED"

func TestMain(m *testing.M) {
	if os.Getenv(killedVariable) == "" {
		os.Exit(m.Run())
	}
	lab, err := Start(func(error) {}, Spec{})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(lab.base + " " + strconv.Itoa(lab.Hosts[0].init) + "\n")
	select {}
}

// answers tells whether the host answers within a short time.
func answers(h *Host) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return h.SSH(ctx, "true").Run() == nil
}

// awaitAnswer waits for an answer: a busy machine may take long for a login.
func awaitAnswer(t *testing.T, h *Host) {
	t.Helper()
	require.Eventually(t, func() bool { return answers(h) }, patience, glance)
}

func TestHostsHaveTheirOwnNamesProcessesAndHomes(t *testing.T) {
	t.Parallel()
	lab := New(t, Spec{}, Spec{})
	for i, h := range lab.Hosts {
		require.Equal(t, "host"+strconv.Itoa(i)+"\nlab\n/home/lab\n", h.Sh("hostname; id -un; pwd"))
		h.Sh("echo here > note; sleep 600 > /dev/null 2>&1 &")
		content, err := os.ReadFile(filepath.Join(h.Home(), "note"))
		require.NoError(t, err)
		require.Equal(t, "here\n", string(content))
	}
	require.NotEqual(t, lab.Hosts[0].Sh("cat /etc/machine-id"), lab.Hosts[1].Sh("cat /etc/machine-id"))
	require.Equal(t, "1\n", lab.Hosts[0].Sh("cat /proc/[0-9]*/comm | grep -c sleep"))
	lab.Hosts[0].Sh("echo seen > " + filepath.Join(lab.Evidence, "note"))
	require.Equal(t, "seen\n", lab.Hosts[1].Sh("cat "+filepath.Join(lab.Evidence, "note")), "evidence is everybody's")
}

func TestACutIsSilentAndAHealedLinkGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	lab := New(t, Spec{}, Spec{})
	cut, other := lab.Hosts[0], lab.Hosts[1]
	speaking := cut.SSH(t.Context(), "sleep 1; echo said")
	out, err := speaking.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, speaking.Start())
	require.Eventually(t, func() bool { return has(cut, "sleep 1") }, patience, glance)
	cut.Cut()
	require.False(t, answers(cut))
	awaitAnswer(t, other)
	require.True(t, has(cut, "sshd"), "only the link is down")
	cut.Heal()
	awaitAnswer(t, cut)
	line := make([]byte, 5)
	_, err = out.Read(line)
	require.NoError(t, err)
	require.Equal(t, "said\n", string(line), "the connection lived")
	require.NoError(t, speaking.Wait())
}

func has(h *Host, command string) bool {
	for _, process := range h.Processes() {
		if strings.Contains(process.Command, command) {
			return true
		}
	}
	return false
}

func TestARebootEndsEveryProcessAndChangesTheBootID(t *testing.T) {
	t.Parallel()
	h := New(t, Spec{}).Hosts[0]
	h.Sh("echo kept > note; setsid sleep 601 > /dev/null 2>&1 < /dev/null &")
	require.Eventually(t, func() bool { return has(h, "sleep 601") }, patience, glance)
	before, machineID := h.Sh("cat /proc/sys/kernel/random/boot_id"), h.Sh("cat /etc/machine-id")
	h.Reboot()
	require.False(t, has(h, "sleep 601"))
	require.NotEqual(t, before, h.Sh("cat /proc/sys/kernel/random/boot_id"))
	require.Equal(t, machineID, h.Sh("cat /etc/machine-id"))
	require.Equal(t, "kept\n", h.Sh("cat note"))
	h.Reinstall()
	require.Equal(t, "0\n", h.Sh("ls | wc -l"))
	h.PowerOff()
	require.False(t, answers(h))
	h.PowerOn()
	awaitAnswer(t, h)
}

func TestADisconnectEndsConnectionsAndNothingElse(t *testing.T) {
	t.Parallel()
	h := New(t, Spec{}).Hosts[0]
	waiting := h.SSH(t.Context(), "sleep 602")
	require.NoError(t, waiting.Start())
	require.Eventually(t, func() bool { return has(h, "sleep 602") }, patience, glance)
	h.Sh("setsid sleep 603 > /dev/null 2>&1 < /dev/null &")
	require.Eventually(t, func() bool { return has(h, "sleep 603") }, patience, glance)
	h.Disconnect()
	require.Error(t, waiting.Wait())
	require.True(t, has(h, "sleep 603"))
	awaitAnswer(t, h)
}

func TestAHostBehindAnotherIsReachedThroughItOnly(t *testing.T) {
	t.Parallel()
	lab := New(t, Spec{}, Spec{Behind: "host0"})
	require.Equal(t, "host1\n", lab.Hosts[1].Sh("hostname"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	direct := lab.Hosts[1].SSH(ctx, "true")
	direct.Args = append([]string{direct.Args[0], "-o", "ProxyJump=none"}, direct.Args[1:]...)
	require.Error(t, direct.Run())
}

func TestASlowLinkTakesItsTimeEachWay(t *testing.T) {
	t.Parallel()
	h := New(t, Spec{Latency: time.Millisecond}).Hosts[0]
	quick := timed(func() { h.Sh("true") })
	h.Slow(200*time.Millisecond, 0)
	slow := timed(func() { h.Sh("true") })
	// A login and a command are at least five round trips of 400 ms.
	require.Greater(t, slow-quick, time.Second)
}

func timed(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

func TestAPasswordOpensAHostThatHasOneAndKeysThatAreStrangeOpenNone(t *testing.T) {
	t.Parallel()
	lab := New(t, Spec{Password: "open sesame"})
	h := lab.Hosts[0]
	login := func(method ssh.AuthMethod) error {
		client, err := ssh.Dial("tcp", h.Address+":22", &ssh.ClientConfig{
			User: h.User, Auth: []ssh.AuthMethod{method}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil {
			return client.Close()
		}
		return err
	}
	require.NoError(t, login(ssh.Password("open sesame")))
	require.ErrorContains(t, login(ssh.Password("open")), "unable to authenticate")
	for name, opens := range map[string]bool{EncryptedKey: true, StrangeKey: false} {
		content, err := os.ReadFile(lab.KeyFile(name))
		require.NoError(t, err)
		key, err := ssh.ParsePrivateKeyWithPassphrase(content, []byte(Passphrase))
		if name == StrangeKey {
			key, err = ssh.ParsePrivateKey(content)
		}
		require.NoError(t, err)
		require.Equal(t, opens, login(ssh.PublicKeys(key)) == nil, name)
	}
}

func TestAnImpostorAndAStrangerAreRefusedByTheController(t *testing.T) {
	t.Parallel()
	h := New(t, Spec{}).Hosts[0]
	awaitAnswer(t, h)
	h.ChangeHostKeys()
	require.False(t, answers(h))
	h.Forget()
	require.False(t, answers(h))
}

func TestHostsThatLackSomething(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/csh"); err != nil {
		machine.Lacks(t, "csh is missing: apt-get install csh")
	}
	lab := New(t, Spec{Disk: "1m"}, Spec{ReadOnly: true},
		Spec{Without: []string{"tar"}, Programs: map[string]string{"nvidia-smi": "#!/bin/sh\necho a GPU\n"}}, Spec{Shell: "/bin/csh"})
	refused := func(h *Host, script string) string {
		command := h.SSH(t.Context(), script)
		out, err := command.CombinedOutput()
		require.Error(t, err, string(out))
		return string(out)
	}
	require.Contains(t, refused(lab.Hosts[0], "head -c 3000000 /dev/zero > full"), "No space left")
	require.Contains(t, refused(lab.Hosts[1], "touch note"), "Read-only file system")
	require.Contains(t, refused(lab.Hosts[2], "tar --version"), "not found")
	require.Equal(t, "a GPU\n", lab.Hosts[2].Sh("nvidia-smi"))
	require.Contains(t, refused(lab.Hosts[3], "export A=b"), "export: Command not found")
}

func TestNothingIsLeftOfALabWhoseTestWasKilled(t *testing.T) {
	t.Parallel()
	if missing := Missing(); missing != "" {
		t.Skip("other tests of this package say what is missing")
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), killedVariable+"=1")
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	said := make([]byte, 200)
	n, err := out.Read(said)
	require.NoError(t, err)
	words := strings.Fields(string(said[:n]))
	first, err := strconv.Atoi(words[1])
	require.NoError(t, err)
	number := filepath.Base(words[0])
	require.NoError(t, exec.Command("ip", "link", "show", "plab"+number).Run())
	require.NoError(t, command.Process.Kill())
	_ = command.Wait()
	require.Eventually(t, func() bool { return syscall.Kill(first, 0) != nil }, patience, glance)
	require.Eventually(t, func() bool { return exec.Command("ip", "link", "show", "plab"+number).Run() != nil }, patience, glance)
}

func TestVariablesReachWhatIsStartedFromNowOn(t *testing.T) {
	t.Parallel()
	for _, h := range []*Host{New(t, Spec{}).Hosts[0], One(t, Spec{}).Hosts[0]} {
		h.SetEnv("ONE=1", "TWO=2")
		require.Equal(t, "1 2\n", h.Sh("echo $ONE $TWO"))
		h.SetEnv()
		require.Equal(t, "\n", h.Sh("echo $ONE $TWO"))
	}
}

func TestOneHostNeedsNoRoot(t *testing.T) {
	t.Parallel()
	lab := One(t, Spec{Latency: time.Millisecond})
	h := lab.Hosts[0]
	require.Equal(t, h.Home()+"\n", h.Sh("cd; pwd"))
	h.Sh("setsid sleep 604 > /dev/null 2>&1 < /dev/null &")
	require.True(t, has(h, "sleep 604"))
	for _, process := range h.Processes() {
		_ = syscall.Kill(process.PID, syscall.SIGKILL)
	}
}
