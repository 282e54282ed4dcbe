package executable

import (
	"context"
	"time"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/verbs"
)

// Only is Examine with one rule.
func Only(name string) func(context.Context, Options, platforms.Section, time.Duration) ([]Rule, error) {
	return func(ctx context.Context, options Options, section platforms.Section, patience time.Duration) ([]Rule, error) {
		return examine(ctx, options, section, verbs.Examination{Patience: patience, Only: name})
	}
}
