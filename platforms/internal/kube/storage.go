package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// storageMount is where NNI mounts the storage in its containers.
	storageMount = "/tmp/mount"
	// storageVolume is what NNI calls it.
	storageVolume = "nni-vol"
)

// NNIStorage is the storage that NNI's files for Kubernetes name. Pods alone mount it.
type NNIStorage struct {
	Kind       string `json:"storageType"` // nfs, azureStorage, pvc; empty: none
	Server     string `json:"server"`
	Path       string `json:"path"`
	Claim      string `json:"claimName"` // empty with pvc: the pods' own template mounts it
	Account    string `json:"azureAccount"`
	AccountKey string `json:"azureAccountKey"`
	Share      string `json:"azureShare"`
	Vault      string `json:"keyVaultName"`
	VaultKey   string `json:"keyVaultKey"`
}

// mountIn has a pod's trial find the storage.
func (s NNIStorage) mountIn(pod *Pod) {
	var source object
	switch {
	case s.Kind == "nfs":
		source = object{"nfs": object{"server": s.Server, "path": s.Path}}
	case s.Kind == "pvc" && s.Claim != "":
		source = object{"persistentVolumeClaim": object{"claimName": s.Claim}}
	case s.Kind == "azureStorage":
		s.mountShareIn(pod)
	}
	if source != nil {
		source["name"] = storageVolume
		pod.Volumes = append(pod.Volumes, source)
	}
	if source != nil || s.Kind == "azureStorage" {
		pod.Mounts = append(pod.Mounts, mount(storageVolume, storageMount))
	}
}

// mountShareIn mounts a share of Azure Files, whose key is in a secret of ours.
func (s NNIStorage) mountShareIn(pod *Pod) {
	made := secret{what: "azure", kind: "Opaque", content: s.credentials}
	pod.secrets = append(pod.secrets, made)
	pod.finish = append(pod.finish, func(key trial.Key, made object) {
		spec := made["spec"].(object)
		share := object{"secretName": secretName(key.Experiment, "azure"), "shareName": s.Share}
		spec["volumes"] = append(spec["volumes"].([]any), object{"name": storageVolume, "azureFile": share})
	})
}

// credentials are those of the share, by the names that Kubernetes wants.
func (s NNIStorage) credentials(ctx context.Context, section platforms.Section) (map[string][]byte, error) {
	key, err := []byte(s.AccountKey), error(nil)
	if s.AccountKey == "" {
		key, err = s.askVault(ctx, section)
	}
	return map[string][]byte{"azurestorageaccountname": []byte(s.Account), "azurestorageaccountkey": key}, err
}

// askVault has Azure's own program bring the key, as NNI did: whoever ran the
// experiment is logged in with it.
func (s NNIStorage) askVault(ctx context.Context, section platforms.Section) ([]byte, error) {
	// By a shell, which looks for the program where its environment says.
	command := exec.CommandContext(ctx, "/bin/sh", "-c", `exec az "$@"`, "az", "keyvault", "secret", "show",
		"--vault-name", s.Vault, "--name", s.VaultKey, "--query", "value", "--output", "tsv")
	command.Env = os.Environ()
	if section.Environment != nil {
		command.Env = section.Environment()
	}
	var said bytes.Buffer
	command.Stderr = &said
	key, err := command.Output()
	key = bytes.TrimSpace(key)
	if err == nil && len(key) == 0 {
		err = fmt.Errorf("it is empty")
	}
	if err != nil {
		return nil, platforms.Errorf(platforms.Denied, "submit", "the key %s of the vault %s cannot be had by az keyvault secret show: %s: log in (az login), or name the key itself by azureAccountKey",
			s.VaultKey, s.Vault, cmp.Or(firstLine(strings.TrimSpace(said.String())), err.Error()))
	}
	return key, nil
}
