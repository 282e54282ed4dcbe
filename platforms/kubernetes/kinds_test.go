package kubernetes_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms/internal/kube"
)

func TestAnExperimentMayNameEveryKind(t *testing.T) {
	schema, err := os.ReadFile("../../schema/experiment.schema.json")
	require.NoError(t, err)
	for _, kind := range kube.Kinds() {
		require.Contains(t, string(schema), strconv.Quote(kind))
	}
}
