package tuners_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/tuners"
)

// BenchmarkATurn times a whole turn, a suggestion with its ask and its result,
// after many trials, eight at a time, in ten dimensions.
func BenchmarkATurn(b *testing.B) {
	for _, name := range []string{"Anneal", "Evolution", "RegularizedEvolution", "Hyperband", "ASHA", "PBT"} {
		for kind, space := range map[string]string{
			"uniform":  tenDimensions(`"uniform", "_value": [0, 1]`),
			"quniform": tenDimensions(`"quniform", "_value": [0, 1, 0.1]`),
		} {
			for _, trials := range []int{1000, 10_000} {
				b.Run(fmt.Sprintf("%s/%s/after-%d", name, kind, trials), func(b *testing.B) {
					p := play(b, name, "", space)
					var open []asked
					turn := func() {
						for p.propose().Answer == tuners.Try && len(open) < 8 {
							open = append(open, p.ask())
						}
						require.NotEmpty(b, open)
						p.succeed(open[0], open[0].parameters["p0"].(float64))
						open = open[1:]
						p.log = nil
					}
					for p.next < trials {
						turn()
					}
					for b.Loop() {
						turn()
					}
				})
			}
		}
	}
}
