package kube

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// NodeName is the name of every laboratory's one node.
const NodeName = "node"

// Uplink is the cluster's end of its link to this machine.
const Uplink = "uplink"

// Site is where a laboratory lies. The network of laboratory n is 10.214.n.0: this
// machine is 1 in it, the cluster 2. Nobody else reaches it.
type Site struct {
	Number    int
	Directory string
	Secret    string // of which all tokens are made
}

// Address is one on the link between this machine and the cluster.
func (s Site) Address(last int) string { return fmt.Sprintf("10.214.%d.%d", s.Number, last) }

// Server is the URL of the API server.
func (s Site) Server() string { return "https://" + s.Address(2) + ":6443" }

// Group is the cgroup of all pods.
func (s Site) Group() string { return fmt.Sprintf("perennial-kube-%d", s.Number) }

// link is this machine's end of the link.
func (s Site) link() string { return fmt.Sprintf("pkube%d", s.Number) }

// wire lays the link to the namespaces of a process.
func (s Site) wire(pid int) error {
	script := fmt.Sprintf(`ip link del %[1]s 2>/dev/null || true
		ip link add %[1]s type veth peer name %[2]s netns %[3]s
		ip addr add %[4]s peer %[5]s dev %[1]s; ip link set %[1]s up`, s.link(), Uplink, strconv.Itoa(pid), s.Address(1), s.Address(2))
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		return fmt.Errorf("link to the cluster: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Kubeconfig is a configuration for clients, with one cluster and one user.
func Kubeconfig(server, token string, certificate []byte) []byte {
	content, _ := json.MarshalIndent(Object{
		"apiVersion": "v1", "kind": "Config", "current-context": "laboratory",
		"clusters": []any{Object{"name": "laboratory", "cluster": Object{"server": server, "certificate-authority-data": base64.StdEncoding.EncodeToString(certificate)}}},
		"users":    []any{Object{"name": "laboratory", "user": Object{"token": token}}},
		"contexts": []any{Object{"name": "laboratory", "context": Object{"cluster": "laboratory", "user": "laboratory", "namespace": "default"}}},
	}, "", "  ")
	return content
}

// Control is the socket on which the cluster's supervisor listens.
func (s Site) Control() string { return filepath.Join(s.Directory, "control") }

// Exports is the directory of which pods see what they mount by NFS.
func (s Site) Exports() string { return filepath.Join(s.Directory, "exports") }
