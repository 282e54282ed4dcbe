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

// SetStartPatience sets how long a round waits for its starts in a test.
func SetStartPatience(t *testing.T, d time.Duration) {
	before := startPatience
	t.Cleanup(func() { startPatience = before })
	startPatience = d
}
