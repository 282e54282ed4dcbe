package activities

import (
	"testing"
	"time"
)

// SetIdle sets how long an algorithm that no activity uses is kept in a test.
func SetIdle(t *testing.T, d time.Duration) {
	before := idle
	t.Cleanup(func() { idle = before })
	idle = d
}
