package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/trial"
)

var secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// secret is a Secret of ours that pods refer to. It goes with the experiment.
type secret struct {
	what string // part of its name
	kind string // its type
	// content reads what is in it. It is kept nowhere but on the cluster.
	content func(ctx context.Context, section platforms.Section) (map[string][]byte, error)
}

func secretName(experiment, what string) string { return "perennial-" + experiment + "-" + what }

// registrySecret is made of a file as docker login writes it.
func registrySecret(path string) secret {
	sum := sha256.Sum256([]byte(path))
	return secret{what: fmt.Sprintf("registry-%x", sum[:4]), kind: "kubernetes.io/dockerconfigjson",
		content: func(context.Context, platforms.Section) (map[string][]byte, error) {
			content, err := os.ReadFile(path)
			if err != nil {
				err = platforms.Errorf(platforms.Denied, "submit", "the registry's credentials cannot be read: %w", err)
			}
			return map[string][]byte{".dockerconfigjson": content}, err
		}}
}

// checkRegistry finds a file that is there and holds no credentials. Nothing of what
// it holds is told.
func checkRegistry(path string) *platforms.OptionFault {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil // whoever runs trials may be elsewhere, or see it later
	}
	var config struct {
		Servers map[string]json.RawMessage `json:"auths"`
	}
	if json.Unmarshal(content, &config) == nil && len(config.Servers) > 0 {
		return nil
	}
	return &platforms.OptionFault{Message: "holds no credentials of a registry", Hint: `JSON with "auths", as docker login writes it into ~/.docker/config.json`}
}

// pullBy has a pod's images pulled with the credentials of a secret.
func (p *Pod) pullBy(from secret) {
	p.secrets = append(p.secrets, from)
	p.finish = append(p.finish, func(key trial.Key, made object) {
		spec := made["spec"].(object)
		known, _ := spec["imagePullSecrets"].([]any)
		spec["imagePullSecrets"] = append(known, object{"name": secretName(key.Experiment, from.what)})
	})
}

// bringSecret makes a secret say what it should, once for a process: so credentials
// that were renewed are there after the next start.
func (s *site) bringSecret(ctx context.Context, wanted secret) error {
	experiment := s.platform.section.Experiment
	name := secretName(experiment, wanted.what)
	if _, brought := s.brought.Load(name); brought {
		return nil
	}
	content, err := wanted.content(ctx, s.platform.section)
	if err != nil {
		return err
	}
	made, err := plain(object{"apiVersion": "v1", "kind": "Secret", "type": wanted.kind, "data": content,
		"metadata": object{"name": name, "labels": s.section.marks(experiment)}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = s.cluster.dynamic.Resource(secretsResource).Namespace(s.namespace).Apply(ctx, name, made, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err == nil {
		s.brought.Store(name, true)
	}
	return err
}
