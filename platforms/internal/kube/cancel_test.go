package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/perennial-ml/perennial/trial"
)

func TestARunThatItsControllerBeganAnewIsNotOver(t *testing.T) {
	s := &site{section: Section{Roles: []Role{{Replicas: 1}}}, job: batchJob}
	pod := func(state string) unstructured.Unstructured {
		u, err := plain(object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"labels": s.section.labels(trial.Key{Experiment: "abcdefgh", Attempt: 1})},
			"status": object{"containerStatuses": []any{object{"name": "trial", "state": object{state: object{}}}}}})
		require.NoError(t, err)
		return *u
	}
	_, over := s.progress([]unstructured.Unstructured{pod("terminated")})
	require.True(t, over)
	_, over = s.progress([]unstructured.Unstructured{pod("terminated"), pod("running")})
	require.False(t, over)
}
