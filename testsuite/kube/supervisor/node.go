package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

// containerd may not raise anybody's OOM score where the machine lacks the right
// to, and without restrict_oom_score_adj no sandbox starts there.
const containerdConfig = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[2]s"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[3]s"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%[4]s"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
`

const networkConfig = `{"cniVersion": "0.4.0", "name": "laboratory", "plugins": [{"type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "%s", "subnet": "10.232.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// The rotation of logs is a tenth of what clusters have, so that what it loses is
// lost by tests in seconds.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
cgroupRoot: /%[1]s
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://%[2]s
address: %[3]s
port: 10250
readOnlyPort: 0
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
podLogsDir: %[4]s
containerLogMaxSize: 1Mi
containerLogMonitorInterval: 3s
evictionHard: {memory.available: 50Mi, nodefs.available: "1%%", imagefs.available: "1%%", nodefs.inodesFree: "1%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
syncFrequency: 10s
maxPods: 250
clusterDNS: [%[3]s]
clusterDomain: cluster.local
registryPullQPS: 0
serializeImagePulls: false
`

func (s *Supervisor) startNode(ctx context.Context) error {
	if err := s.writeNode(); err != nil {
		return err
	}
	if err := s.startContainerd(ctx); err != nil {
		return err
	}
	if err := s.start("kubelet", "node", "--config="+s.path("kubelet.yaml"), "--kubeconfig="+s.kubeconfig("kubelet"), "--root-dir="+s.path("kubelet"),
		"--hostname-override="+kube.NodeName, "--node-ip="+s.Address(2), "--cert-dir="+s.path("kubelet/pki")); err != nil {
		return err
	}
	return await(ctx, "node", func() error {
		node, err := s.api.Get(ctx, "/api/v1/nodes/"+kube.NodeName)
		if err == nil && !kube.Condition(node, "Ready") {
			err = errors.New("the node is not ready")
		}
		return err
	})
}

func (s *Supervisor) writeNode() error {
	configs := map[string]string{
		"containerd.toml":            fmt.Sprintf(containerdConfig, s.path("containerd"), s.socket(), kube.PauseImage, s.path("cni")),
		"cni/10-laboratory.conflist": fmt.Sprintf(networkConfig, s.path("addresses")),
		"kubelet.yaml":               fmt.Sprintf(kubeletConfig, s.Group(), s.socket(), s.Address(2), s.path("pods")),
	}
	for name, content := range configs {
		if err := errors.Join(os.MkdirAll(filepath.Dir(s.path(name)), 0o755), os.WriteFile(s.path(name), []byte(content), 0o600)); err != nil {
			return err
		}
	}
	return s.makeGroups()
}

// makeGroups makes the cgroup below which all pods are, of every kind that the
// machine has.
func (s *Supervisor) makeGroups() error {
	groups := []string{filepath.Join("/sys/fs/cgroup", s.Group())}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		groups, _ = filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
		for i := range groups {
			groups[i] = filepath.Join(filepath.Dir(groups[i]), s.Group())
		}
	}
	var failed error
	for _, group := range groups {
		failed = errors.Join(failed, os.MkdirAll(group, 0o755))
	}
	return failed
}

func (s *Supervisor) socket() string { return s.path("containerd.sock") }

func (s *Supervisor) startContainerd(ctx context.Context) error {
	if err := s.add(&part{name: "containerd", program: "containerd", arguments: []string{"--config", s.path("containerd.toml")}, directory: s.Directory}); err != nil {
		return err
	}
	if err := await(ctx, "containerd", func() error { return s.containerd("version") }); err != nil {
		return err
	}
	pause, shell := s.path("pause.tar"), s.path("shell.tar")
	return errors.Join(kube.WritePauseImage(pause, filepath.Join(s.tools, "pause")), kube.WriteShellImage(shell), s.Import(pause), s.Import(shell))
}

// Import takes an image into the node, and removes the file.
func (s *Supervisor) Import(image string) error {
	return errors.Join(s.containerd("-n", "k8s.io", "images", "import", "--snapshotter", "overlayfs", image), os.Remove(image))
}

func (s *Supervisor) containerd(arguments ...string) error {
	return run("ctr", append([]string{"--address", s.socket()}, arguments...)...)
}

// Python takes the image with the machine's Python into the node.
func (s *Supervisor) Python(interpreter string) error {
	path := s.path("python.tar")
	return errors.Join(kube.WritePythonImage(path, interpreter), s.Import(path))
}
