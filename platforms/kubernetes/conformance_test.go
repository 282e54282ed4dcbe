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

func TestConformanceOfKindFramework(t *testing.T) { conforms(t, "Framework") }

func TestConformanceOfKindTrainJob(t *testing.T) { conforms(t, "TrainJob") }

// What kinds have in common is held to the whole contract by those above.
func TestEveryKindRunsATrialEndsOneAndNeverStartsWhatWasCancelledBefore(t *testing.T) {
	cluster := kube.Up(t)
	sections := map[string]map[string]any{"custom": customJobSet(), "custom with suspend": customPyTorchJob()}
	for _, kind := range []string{"TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob", "JobSet"} {
		sections[kind] = map[string]any{"kind": kind}
	}
	for name, section := range sections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, cluster, cluster.Namespace(t), section)
			over := func(r platforms.Report) bool { return r.Phase.Definite() && !r.Pending }
			whole, ended, never := submit(t, p, `echo "perennial: final 2"`), submit(t, p, "sleep 600"), platforms.Handle{Key: oneMore(p)}
			await(t, p, ended, func(r platforms.Report) bool { return r.Phase == platforms.Running })
			for _, unwanted := range []platforms.Handle{ended, never} {
				require.NoError(t, p.Cancel(t.Context(), unwanted, trial.Intent{Cause: trial.CauseUser}))
				require.Equal(t, trial.CauseUser, await(t, p, unwanted, over).Intent.Cause)
			}
			report := await(t, p, whole, over)
			require.Zero(t, report.Exit.Code)
			require.Len(t, report.Journal.Records, 1)
		})
	}
}

// AdaptDL's scheduler is a stand-in here.
func TestConformanceOfKindAdaptDLJob(t *testing.T) {
	kube.Up(t).AdaptDL(t)
	conforms(t, "AdaptDLJob")
}

func conforms(t *testing.T, kind string) {
	cluster := kube.Up(t)
	t.Parallel()
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
