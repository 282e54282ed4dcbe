// Package supervisor runs a laboratory's cluster, in namespaces made for it:
// everything in them (processes, mounts, networks) ends with their first process,
// even if that is killed.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

// patience is how long a part may take to come up on a busy machine.
const patience = 2 * time.Minute

// Supervisor runs one cluster.
type Supervisor struct {
	kube.Site
	tools string // directory of the built programs
	api   *kube.API
	mutex sync.Mutex
	parts map[string]*part
	asked sync.Mutex // for what is brought up when somebody asks for it
}

// New returns a supervisor of a cluster that does not run yet. The directory of
// tools is what build.sh filled.
func New(site kube.Site, tools string) *Supervisor {
	return &Supervisor{Site: site, tools: tools, parts: map[string]*part{}}
}

// Start brings the cluster up and returns when trials can run on it.
func (s *Supervisor) Start(ctx context.Context) error {
	if err := errors.Join(s.isolate(), s.writeKeys()); err != nil {
		return err
	}
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	starting, ctx := errgroup.WithContext(ctx)
	starting.Go(func() error { return errors.Join(s.startDNS(), s.startNode(ctx)) })
	starting.Go(func() error { return s.startOperators(ctx) })
	return starting.Wait()
}

// isolate mounts private directories where programs insist on a place of their
// own, and brings up the network that the launcher has laid.
func (s *Supervisor) isolate() error {
	script := `mount --make-rslave / && mount -t proc proc /proc && ip link set lo up`
	for _, place := range []string{"/run/containerd", "/run/netns", "/tmp/k8s-webhook-server"} {
		script += fmt.Sprintf(" && mkdir -p %[1]s && mount -t tmpfs tmpfs %[1]s", place)
	}
	if err := run("sh", "-c", script); err != nil {
		return err
	}
	if err := s.standInForNFS(); err != nil {
		return err
	}
	if err := await(context.Background(), "network", func() error { return run("ip", "link", "show", kube.Uplink) }); err != nil {
		return err
	}
	return run("sh", "-ec", fmt.Sprintf("ip addr add %s peer %s dev %[3]s; ip link set %[3]s up; ip route add default via %[2]s", s.Address(2), s.Address(1), kube.Uplink))
}

// standInForNFS has mounts of NFS show directories of this machine, below Exports,
// whatever the server: few kernels of test machines know NFS. All but the protocol
// is as it would be.
func (s *Supervisor) standInForNFS() error {
	const helper = `#!/bin/sh
mkdir -p "%[1]s/${1#*:}" && exec mount --bind "%[1]s/${1#*:}" "$2"
`
	for _, name := range []string{"sbin/above", "sbin/work"} {
		if err := os.MkdirAll(s.path(name), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.path("sbin/above/mount.nfs"), fmt.Appendf(nil, helper, s.Exports()), 0o755); err != nil {
		return err
	}
	return run("mount", "-t", "overlay", "overlay", "-o", fmt.Sprintf("lowerdir=/usr/sbin,upperdir=%s,workdir=%s", s.path("sbin/above"), s.path("sbin/work")), "/usr/sbin")
}

func (s *Supervisor) startControlPlane(ctx context.Context) error {
	etcd := []string{"--data-dir", s.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=default=http://127.0.0.1:2380"}
	apiserver := []string{"--etcd-servers=http://127.0.0.1:2379", "--cert-dir=" + s.path("certificates"),
		"--bind-address=" + s.Address(2), "--advertise-address=" + s.Address(2), "--secure-port=6443", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + s.path("sa.pub"),
		"--service-account-signing-key-file=" + s.path("sa.key"), "--token-auth-file=" + s.path("tokens.csv"),
		"--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true",
		"--kubelet-preferred-address-types=InternalIP,Hostname"} // else it asks DNS for the node's name
	if err := errors.Join(s.start("etcd", "node", etcd...), s.start("kube-apiserver", "node", apiserver...)); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.startControllers(); err != nil {
		return err
	}
	return await(ctx, "service account of the default namespace", func() error { // without it pods are refused
		_, err := s.api.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
		return err
	})
}

// connect waits for the API server, whose certificate is its own, and writes the
// configurations of all who speak to it.
func (s *Supervisor) connect(ctx context.Context) error {
	return await(ctx, "API server", func() error {
		certificate, err := os.ReadFile(s.certificate())
		if err != nil {
			return err
		}
		s.api = kube.NewAPI(s.Server(), s.token("admin"), certificate)
		if _, err := s.api.Do(ctx, http.MethodGet, "/readyz", nil); err != nil {
			return err
		}
		for user := range users {
			err = errors.Join(err, os.WriteFile(s.kubeconfig(user), kube.Kubeconfig(s.Server(), s.token(user), certificate), 0o600))
		}
		return err
	})
}

func (s *Supervisor) startControllers() error {
	controllers := []string{"--kubeconfig=" + s.kubeconfig("controllers"), "--service-account-private-key-file=" + s.path("sa.key"),
		"--root-ca-file=" + s.certificate(), "--use-service-account-credentials=true", "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=10257", "--cert-dir=" + s.path("controllers")}
	scheduler := []string{"--kubeconfig=" + s.kubeconfig("scheduler"), "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=10259", "--cert-dir=" + s.path("scheduler")}
	return errors.Join(s.start("kube-controller-manager", "node", controllers...), s.start("kube-scheduler", "node", scheduler...))
}

func (s *Supervisor) path(name string) string { return filepath.Join(s.Directory, name) }

func (s *Supervisor) certificate() string { return s.path("certificates/apiserver.crt") }

func (s *Supervisor) kubeconfig(user string) string { return s.path(user + ".kubeconfig") }

// run runs a command to its end.
func run(name string, arguments ...string) error {
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// await waits until something no longer fails.
func await(ctx context.Context, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not come up: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
