package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnObjectIsHeldBackByWhateverItsOwnKindSuspendsItBy(t *testing.T) {
	kind := jobKind{suspended: object{"replicas": 0.0, "roles": []any{"none"}}}
	of := func(spec object) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: object{"spec": spec}}
	}
	require.True(t, kind.isHeldBack(of(object{"replicas": int64(0), "roles": []any{"none"}, "more": true})))
	require.False(t, kind.isHeldBack(of(object{"replicas": int64(0), "roles": []any{"some"}})))
	require.False(t, kind.isHeldBack(&unstructured.Unstructured{Object: object{}}))
}
