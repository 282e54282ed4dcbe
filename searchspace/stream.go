package searchspace

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// Stream gives the random numbers of one trial. It is keyed by (seed, trial
// number), so any trial's numbers can be had without drawing those of the trials
// before it, and they are the same on every machine.
type Stream struct {
	source *rand.ChaCha8
}

// NewStream returns the stream of one trial, at its beginning.
func NewStream(seed uint64, trial int) *Stream {
	key := []byte("perennial search space stream")
	key = binary.BigEndian.AppendUint64(key, seed)
	key = binary.BigEndian.AppendUint64(key, uint64(trial))
	return &Stream{source: rand.NewChaCha8(sha256.Sum256(key))}
}

// Open returns a number between 0 and 1, neither of them, uniformly: an odd
// multiple of 2^-53.
func (s *Stream) Open() float64 {
	const scale = 1.0 / (1 << 53)
	return float64(s.source.Uint64()>>12<<1|1) * scale
}

// Below returns an integer of [0, n), uniformly; n must not be 0. (Lemire, "Fast
// Random Integer Generation in an Interval", 2019.)
func (s *Stream) Below(n uint64) uint64 {
	high, low := bits.Mul64(s.source.Uint64(), n)
	for low < -n%n {
		high, low = bits.Mul64(s.source.Uint64(), n)
	}
	return high
}
