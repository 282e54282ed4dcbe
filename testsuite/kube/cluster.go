// Package kube is a laboratory of Kubernetes for tests: a real cluster of one node,
// with etcd, the API server, its controllers and scheduler, kubelet, containerd and
// runc, and the real operators of Kubeflow (training-operator, Trainer, JobSet) and
// FrameworkController. Any part is killed, frozen and started again.
//
// It needs root, Linux, Debian's containerd, runc, containernetworking-plugins,
// busybox-static and iproute2, and the programs that make kube-tools builds. A
// cluster has namespaces and a network of its own, so several run side by side and
// touch nothing of the machine. It ends with the process that started it. Pods
// reach nobody outside; the DNS that they ask is a small one of ours, which knows the
// names of services without an address.
package kube

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/machine"
)

// Ready is what a supervisor says once its cluster is up.
const Ready = "ready"

// Cluster is a running cluster.
type Cluster struct {
	Site
	Kubeconfig string // of a user who may do everything
	API        *API   // as the same user

	control *http.Client
	python  sync.Once
	adaptDL sync.Once
	failed  error
}

// shared is the one cluster of a test's process.
var shared = sync.OnceValues(func() (*Cluster, error) {
	if kubeconfig := os.Getenv("PERENNIAL_TEST_KUBE"); kubeconfig != "" {
		return attach(kubeconfig)
	}
	return Start(UntilThisProcessEnds)
})

// Up returns the cluster that all tests of this process share, and starts it for
// the first. PERENNIAL_TEST_KUBE names the directory of one that make kube has
// started. Without root, or the programs it needs, the test is left out; in CI it
// fails.
func Up(t testing.TB) *Cluster {
	t.Helper()
	if missing := Missing(); missing != "" {
		machine.Lacks(t, "%s", missing)
	}
	cluster, err := shared()
	require.NoError(t, err)
	return cluster
}

// Missing says what this machine lacks for a laboratory, empty if nothing.
func Missing() string {
	if os.Getuid() != 0 {
		return "a Kubernetes node needs root, who may make containers"
	}
	for _, name := range []string{"containerd", "ctr", "runc", "busybox", "ip", "/usr/lib/cni/ptp"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is missing: apt-get install containerd runc containernetworking-plugins busybox-static iproute2"
		}
	}
	if _, err := os.Stat(filepath.Join(tools(), "up")); err != nil {
		return "the cluster's programs are not built: make kube-tools"
	}
	return ""
}

// tools is the directory of the built programs: of the one that runs, unless it is
// a test.
func tools() string {
	_, file, _, _ := runtime.Caller(0)
	if program, err := os.Executable(); err == nil && filepath.Base(program) == "up" {
		return filepath.Dir(program)
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "bin", "kube")
}

// Span says how long a cluster lives.
type Span bool

// Spans of a cluster.
const (
	UntilThisProcessEnds Span = false
	InBackground         Span = true // until Down
)

// Start brings a cluster up.
func Start(span Span) (*Cluster, error) {
	slot, err := machine.TakeSlot("kube")
	if err != nil {
		return nil, err
	}
	defer slot.Lock.Close() // the supervisor has it too
	secret := make([]byte, 16)
	_, _ = rand.Read(secret)
	site := Site{Number: slot.Number, Directory: slot.Directory, Secret: hex.EncodeToString(secret)}
	description, _ := json.Marshal(site)
	if err := os.WriteFile(filepath.Join(site.Directory, "site"), description, 0o600); err != nil {
		return nil, err
	}
	if err := launch(site, string(description), slot.Lock, span); err != nil {
		return nil, err
	}
	if span == InBackground {
		_ = os.Remove(background())
		if err := os.Symlink(site.Directory, background()); err != nil {
			return nil, err
		}
	}
	return attach(site.Directory)
}

// background is a link to the directory of the cluster in the background.
func background() string { return filepath.Join(tools(), "running") }

// Down takes the cluster in the background away.
func Down() error {
	cluster, err := attach(background())
	if err != nil {
		return errors.New("no cluster is up")
	}
	if err := cluster.ask("/down"); err != nil && !strings.Contains(err.Error(), "EOF") {
		return err
	}
	for range 600 {
		if _, err := os.Stat(cluster.Directory); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return os.Remove(background())
}

// launch starts the supervisor in namespaces of its own and waits until its
// cluster is up. It ends when its standard input does: when this process ends.
func launch(site Site, description string, lock *os.File, span Span) error {
	command := exec.Command(filepath.Join(tools(), "up"), "-role", "first", description)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Setsid: true}
	command.ExtraFiles = []*os.File{lock}
	log := filepath.Join(site.Directory, "log")
	errorsFile, err := os.Create(log)
	if err != nil {
		return err
	}
	defer errorsFile.Close()
	command.Stderr = errorsFile
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := feed(command, span); err != nil {
		return err
	}
	if err := errors.Join(command.Start(), site.wire(command.Process.Pid)); err != nil {
		return err
	}
	if line, _ := bufio.NewReader(output).ReadString('\n'); strings.TrimSpace(line) != Ready {
		said, _ := os.ReadFile(log)
		_ = command.Wait()
		return fmt.Errorf("the cluster does not come up: %s", said)
	}
	return nil
}

// lifelines are the standard inputs of supervisors: one that were collected would
// be closed.
var lifelines []io.Closer

// feed gives the supervisor a standard input that ends when it should.
func feed(command *exec.Cmd, span Span) error {
	if span == UntilThisProcessEnds {
		lifeline, err := command.StdinPipe()
		lifelines = append(lifelines, lifeline)
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	command.Stdin = reader
	command.ExtraFiles = append(command.ExtraFiles, writer) // it holds it itself
	return nil
}

// attach returns the running cluster of a directory.
func attach(directory string) (*Cluster, error) {
	content, err := os.ReadFile(filepath.Join(directory, "site"))
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if err := json.Unmarshal(content, &c.Site); err != nil {
		return nil, err
	}
	certificate, err := os.ReadFile(filepath.Join(c.Directory, "certificates", "apiserver.crt"))
	if err != nil {
		return nil, err
	}
	c.Kubeconfig = filepath.Join(c.Directory, "admin.kubeconfig")
	c.API = NewAPI(c.Server(), c.Secret+"-admin", certificate)
	c.control = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", c.Control())
	}}}
	return c, nil
}

// ask has the supervisor do something, and returns when it is done.
func (c *Cluster) ask(path string) error {
	_, err := answer(c.control.Post("http://supervisor"+path, "", nil))
	return err
}

// AddPython takes PythonImage into the node, around an interpreter of this machine.
func (c *Cluster) AddPython(interpreter string) error {
	c.python.Do(func() { c.failed = c.ask("/python?interpreter=" + url.QueryEscape(interpreter)) })
	return c.failed
}

// Python returns the name of the image with the machine's Python and its nni 3.0.
func (c *Cluster) Python(t testing.TB) string {
	t.Helper()
	require.NoError(t, c.AddPython(machine.PythonWithNNI(t, "3.0")))
	return PythonImage
}

// Parts of a cluster that tests end and start again.
const (
	Etcd        = "etcd"
	APIServer   = "kube-apiserver"
	Controllers = "kube-controller-manager"
	Scheduler   = "kube-scheduler"
	Kubelet     = "kubelet"
	Containerd  = "containerd"
)

// Kueue has the real Kueue run in the cluster, for Jobs and PyTorchJobs that name a queue.
func (c *Cluster) Kueue(t testing.TB) { require.NoError(t, c.ask("/kueue")) }

// Kill ends a part with SIGKILL; it stays away until Restart.
func (c *Cluster) Kill(t testing.TB, part string) { require.NoError(t, c.ask("/parts/"+part+"/kill")) }

// Restart starts a part that was killed. Its old log goes on.
func (c *Cluster) Restart(t testing.TB, part string) {
	require.NoError(t, c.ask("/parts/"+part+"/start"))
	if part == APIServer {
		c.Await(t, "the API server", func() bool {
			_, err := c.API.Do(t.Context(), http.MethodGet, "/readyz", nil)
			return err == nil
		})
	}
}

// Freeze lets a part answer nobody, without ending it, until Thaw.
func (c *Cluster) Freeze(t testing.TB, part string) {
	require.NoError(t, c.ask("/parts/"+part+"/freeze"))
}

// Thaw lets a frozen part go on.
func (c *Cluster) Thaw(t testing.TB, part string) {
	require.NoError(t, c.ask("/parts/"+part+"/thaw"))
}

// Cut lets nothing through to the cluster, until Heal.
func (c *Cluster) Cut(t testing.TB) { c.setLink(t, "down") }

// Heal lets everything through again.
func (c *Cluster) Heal(t testing.TB) { c.setLink(t, "up") }

func (c *Cluster) setLink(t testing.TB, state string) {
	out, err := exec.Command("ip", "link", "set", c.link(), state).CombinedOutput()
	require.NoError(t, err, string(out))
}

// DeleteNode takes the node out of the cluster; pods on it are lost to it.
// ReturnNode brings it back.
func (c *Cluster) DeleteNode(t testing.TB) {
	_, err := c.API.Do(t.Context(), http.MethodDelete, "/api/v1/nodes/"+NodeName, nil)
	require.NoError(t, err)
}

// ReturnNode has the kubelet register its node again.
func (c *Cluster) ReturnNode(t testing.TB) {
	c.Kill(t, Kubelet)
	c.Restart(t, Kubelet)
	c.Await(t, "the node", func() bool {
		node, err := c.API.Get(t.Context(), "/api/v1/nodes/"+NodeName)
		return err == nil && Condition(node, "Ready")
	})
}

// Advertise has the node give away some of a resource that nobody looks for, as a device
// plugin would.
func (c *Cluster) Advertise(t testing.TB, resource string, count int) {
	t.Helper()
	amount := Object{resource: strconv.Itoa(count)}
	require.NoError(t, c.API.Apply(t.Context(), "/api/v1/nodes/"+NodeName+"/status", Object{"apiVersion": "v1", "kind": "Node",
		"metadata": Object{"name": NodeName}, "status": Object{"capacity": amount, "allocatable": amount}}))
}

// Namespace makes a namespace that is gone, with all in it, after the test.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix)
	name := "test-" + hex.EncodeToString(suffix)
	path := "/api/v1/namespaces/" + name
	require.NoError(t, c.API.Apply(t.Context(), path, Object{"apiVersion": "v1", "kind": "Namespace", "metadata": Object{"name": name}}))
	t.Cleanup(func() { _, _ = c.API.Do(context.Background(), http.MethodDelete, path, nil) })
	c.Await(t, "a service account in "+name, func() bool {
		_, err := c.API.Get(t.Context(), path+"/serviceaccounts/default")
		return err == nil
	})
	return name
}

// KubeconfigOf returns the path of a configuration for another user, who may do
// nothing until a test binds a role to him.
func (c *Cluster) KubeconfigOf(t testing.TB, user string) string {
	t.Helper()
	content, err := c.kubeconfigAs(user)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// Account makes a service account, unless it is there, and returns the path of a
// configuration for it. It may do what roles say that name it.
func (c *Cluster) Account(t testing.TB, namespace, name string) string {
	t.Helper()
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name
	require.NoError(t, c.API.Apply(t.Context(), path, Object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": Object{"name": name}}))
	answer, err := c.API.Do(t.Context(), http.MethodPost, path+"/token", Object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": Object{}})
	require.NoError(t, err)
	var made Object
	require.NoError(t, json.Unmarshal(answer, &made))
	certificate, err := os.ReadFile(filepath.Join(c.Directory, "certificates", "apiserver.crt"))
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(config, Kubeconfig(c.Server(), Field(made, "status", "token").(string), certificate), 0o600))
	return config
}

// Create makes an object in a collection, such as /apis/batch/v1/namespaces/N/jobs.
func (c *Cluster) Create(t testing.TB, collection string, object Object) {
	t.Helper()
	_, err := c.API.Do(t.Context(), http.MethodPost, collection, object)
	require.NoError(t, err)
}

// Pods returns the pods of a namespace that a selector of labels matches.
func (c *Cluster) Pods(t testing.TB, namespace, selector string) (pods []Object) {
	t.Helper()
	list, err := c.API.Get(t.Context(), "/api/v1/namespaces/"+namespace+"/pods?labelSelector="+url.QueryEscape(selector))
	require.NoError(t, err)
	items, _ := list["items"].([]any)
	for _, item := range items {
		pods = append(pods, item.(Object))
	}
	return pods
}

// Logs returns what a container of a pod has printed, as far as kubelet kept it.
func (c *Cluster) Logs(t testing.TB, namespace, pod, container string) string {
	t.Helper()
	content, err := c.API.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/log?container="+container, nil)
	require.NoError(t, err)
	return string(content)
}

// Await waits for a condition, as long as a busy machine may need.
func (c *Cluster) Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 2*time.Minute, 100*time.Millisecond, "%s; what the cluster's parts said is in %s/logs", what, c.Directory)
}
