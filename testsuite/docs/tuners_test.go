package docs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/assessors"
	"github.com/perennial-ml/perennial/tuners"
)

func TestThePageOfTunersNamesEveryOneAndItsArguments(t *testing.T) {
	page := read(t, root+"/docs/tuners.md")
	for _, name := range append(tuners.Names(), assessors.Names()...) {
		require.Contains(t, page, name)
		for _, argument := range tuners.Describe(name) {
			require.Contains(t, page, "`"+argument.Name+"`", name)
		}
	}
}
