package platforms

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAHandleNamesItsMachineWhereThePlatformDoes(t *testing.T) {
	for data, want := range map[string]string{
		``:                                       "",
		`{"directory":"/trials/1"}`:              "",
		`{"host":7}`:                             "",
		`{"host":"gpu1"}`:                        "gpu1",
		`{"host":"gpu1","port":22,"user":"ada"}`: "ada@gpu1",
		`{"host":"gpu1","port":2222,"boot":"1f-2e"}`: "gpu1:2222",
	} {
		require.Equal(t, want, Handle{Data: json.RawMessage(data)}.Host(), data)
	}
}
