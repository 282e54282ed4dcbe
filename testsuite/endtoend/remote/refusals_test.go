package remote

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
	"github.com/perennial-ml/perennial/testsuite/sshlab"
)

// refusal is a host that cannot be used as the experiment says, and what a user
// must be told.
type refusal struct {
	name    string
	spec    sshlab.Spec
	spoil   func(w *world) // after the files are written, before they are run
	machine func(w *world) string
	says    []string
}

// withKey names the only host with one of the controller's keys.
func withKey(key string) func(w *world) string {
	return func(w *world) string {
		return w.platform() + "  - {host: " + w.lab.Hosts[0].Address + ", user: lab, sshKeyFile: " + w.lab.KeyFile(key) + "}\n"
	}
}

func withPassword(password string) func(w *world) string {
	return func(w *world) string {
		return w.platform() + "  - {host: " + w.lab.Hosts[0].Address + ", user: lab, password: " + password + "}\n"
	}
}

var refusals = []refusal{
	{name: "a wrong password", spec: sshlab.Spec{Password: "open sesame"}, machine: withPassword("open"), says: []string{"password"}},
	{name: "a key the host does not know", machine: withKey(sshlab.StrangeKey), says: []string{sshlab.StrangeKey, "ssh-copy-id"}},
	{name: "a key that needs a phrase", machine: withKey(sshlab.EncryptedKey), says: []string{"sshPassphrase"}},
	{name: "a changed host key", spoil: func(w *world) { w.lab.Hosts[0].ChangeHostKeys() }, says: []string{"another key", "ssh-keygen"}},
	{name: "a full disk", spec: sshlab.Spec{Disk: "1m"}, says: []string{"the disk is full there: make room", "No space left"}},
	{name: "a disk that is full before the code is there", spec: sshlab.Spec{Disk: "80m"}, spoil: func(w *world) { w.ballast(90) },
		says: []string{"the disk is full at /home, make room there and it goes on: no space left on device"}},
	{name: "a home that cannot be written to", spec: sshlab.Spec{ReadOnly: true}, says: []string{"cannot be written", "Read-only"}},
}

func TestAHostThatCannotBeUsedSaysWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, refused := range refusals {
		t.Run(refused.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, refused.spec)
			plan := short(1, 1)
			if refused.machine != nil {
				plan.Platform = refused.machine(w)
			}
			file := w.plan(plan)
			if refused.spoil != nil {
				refused.spoil(w)
			}
			said := w.awaitWait(w.Follow(file).ID())
			t.Log(said)
			for _, word := range append(refused.says, w.lab.Hosts[0].Address) {
				require.Contains(t, said, word)
			}
			require.NotContains(t, said, "open sesame")
		})
	}
}

// ballast adds so many MiB to the code, which no compression makes smaller.
func (w *world) ballast(size int) {
	content := make([]byte, size<<20)
	rand.Read(content)
	require.NoError(w.t, os.WriteFile(filepath.Join(w.Work, "code", "ballast"), content, 0o644))
}

func TestADiskThatIsFullBeforeATrialHasItsCopyOfTheCodeIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{Disk: "150m"})
	file := w.plan(short(1, 1))
	w.ballast(80)
	said := w.awaitReason(w.Follow(file).ID(), 0, "submit-exhausted")
	require.Equal(t, "submit: lab@"+w.lab.Hosts[0].Address+": the disk is full at /home, make room there and it goes on: no space left on device", said)
}

// awaitWait waits until an experiment waits for something and returns what its
// user is told.
func (w *world) awaitWait(id string) string {
	w.t.Helper()
	var shown struct {
		Reason struct{ Code, Text string }
	}
	w.Await("a reason", func() bool {
		require.NoError(w.t, json.Unmarshal([]byte(w.Must("show", id, "--output", "json")), &shown))
		return strings.HasPrefix(shown.Reason.Code, "prepare-")
	})
	return shown.Reason.Text
}

func TestAnUnknownHostKeyIsAcceptedByTheCommandInTheMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{})
	file := w.plan(short(1, 1))
	w.lab.Hosts[0].Forget()
	run := w.Follow(file)
	said := w.awaitWait(run.ID())
	require.Contains(t, said, "SHA256:")
	_, command, found := strings.Cut(said, "\n")
	require.True(t, found, said)
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), 1, nil)
	w.requireNothingLeft()
}

func TestALoginShellThatIsNoShellOfOursAndAKeyWithAPhraseAreNoHindrance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sshlab.Spec{Shell: "/bin/csh"})
	plan := short(2, 1)
	plan.Platform = w.platform() + "  - {host: " + w.lab.Hosts[0].Address + ", user: lab, sshKeyFile: " + w.lab.KeyFile(sshlab.EncryptedKey) +
		", sshPassphrase: " + sshlab.Passphrase + "}\n"
	run := w.follow(plan)
	require.Equal(t, "DONE", run.Finished(endtoend.Patience).Status)
	w.RequireExactlyOnce(run.ID(), 2, nil)
	w.requireNothingLeft()
}
