package kubernetes_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/kubernetes"
	"github.com/perennial-ml/perennial/runner/binary"
	"github.com/perennial-ml/perennial/testsuite/kube"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

func TestConformanceOfKindJob(t *testing.T) { conforms(t, "Job") }

func TestConformanceOfKindPyTorchJob(t *testing.T) { conforms(t, "PyTorchJob") }

func TestConformanceOfKindTFJob(t *testing.T) { conforms(t, "TFJob") }

func TestConformanceOfKindFramework(t *testing.T) { conforms(t, "Framework") }

func TestConformanceOfKindJobSet(t *testing.T) { conforms(t, "JobSet") }

func conforms(t *testing.T, kind string) {
	cluster := kube.Up(t)
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		state, namespace := t.TempDir(), cluster.Namespace(t)
		options, err := json.Marshal(map[string]any{"kind": kind, "image": kube.ShellImage, "namespace": namespace, "kubeconfig": cluster.Kubeconfig})
		require.NoError(t, err)
		return platformtest.Subject{
			Kind: func(*testing.T) platforms.Kind {
				return kubernetes.New(kubernetes.Options{StateDirectory: state, Runner: binary.For})
			},
			Options: func() json.RawMessage { return options },
			Job:     job,
		}
	})
}

// job behaves as asked, without any code.
func job(t *testing.T, key trial.Key, behaviour platformtest.Behaviour) platforms.Job {
	made := platformtest.ShellJob(t, key, behaviour)
	made.Workspace = platforms.Workspace{}
	made.Command = behaviour.Command("")
	return made
}
