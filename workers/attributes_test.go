package workers

import (
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
)

func TestTheCommandThatAddsSearchAttributesIsThatOfTemporalsOwnProgram(t *testing.T) {
	wanted := SearchAttributes{"TrialIndex": enumspb.INDEXED_VALUE_TYPE_INT, "ExperimentId": enumspb.INDEXED_VALUE_TYPE_KEYWORD}
	require.Equal(t, "temporal operator search-attribute create --address a:1 --namespace n"+
		" --name ExperimentId --type Keyword --name TrialIndex --type Int", wanted.Command("a:1", "n"))
}
