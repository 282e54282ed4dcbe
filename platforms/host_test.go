package platforms

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHandleWithoutAHostTakesThatOfItsData(t *testing.T) {
	for data, want := range map[string]string{
		``:                                       "",
		`{"directory":"/trials/1"}`:              "",
		`{"host":7}`:                             "",
		`{"host":"gpu1"}`:                        "gpu1",
		`{"host":"gpu1","port":22,"user":"ada"}`: "ada@gpu1",
		`{"host":"gpu1","port":2222,"boot":"1f-2e"}`: "gpu1:2222",
	} {
		text, err := json.Marshal(Handle{Data: json.RawMessage(data)})
		require.NoError(t, err)
		var read Handle
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, want, read.Host, data)
	}
}

func TestAHandleThatNamesItsMachineItselfKeepsThat(t *testing.T) {
	var read Handle
	require.NoError(t, json.Unmarshal([]byte(`{"host": "node-7", "data": {"host": "the address of a service"}}`), &read))
	require.Equal(t, "node-7", read.Host)
}
