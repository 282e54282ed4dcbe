package trial

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

const (
	letters      = "abcdefghijklmnopqrstuvwxyz"
	alphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789"
	idSpace      = 26 * 36 * 36 * 36 * 36 // trial ids: a letter, then four letters or digits
	halfBits     = 13                     // 2^26 is the smallest even power of two above idSpace
)

// IDLength is how many letters and digits the id of a trial has.
const IDLength = 5

// NewExperimentID returns a random id of eight lower-case letters and digits.
func NewExperimentID() string {
	random := make([]byte, 8)
	rand.Read(random) // never fails since Go 1.24
	for i := range random {
		random[i] = alphanumeric[int(random[i])%len(alphanumeric)]
	}
	return string(random)
}

// IsExperimentID tells whether an experiment may have this id.
func IsExperimentID(id string) bool {
	return len(id) == 8 && strings.Trim(id, alphanumeric) == ""
}

// ID returns the id of the n-th trial of an experiment: five lower-case letters
// and digits, a letter first. It is a keyed permutation of n (a Feistel network
// with cycle walking; Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", 2002), so no two trials of one experiment share an id. n must lie in
// [0, 43,670,016).
func ID(experiment string, n int) string {
	x := permute(experiment, uint32(n))
	for x >= idSpace {
		x = permute(experiment, x)
	}
	id := make([]byte, IDLength)
	for i := IDLength - 1; i > 0; i-- {
		id[i] = alphanumeric[x%36]
		x /= 36
	}
	id[0] = letters[x]
	return string(id)
}

func permute(key string, x uint32) uint32 {
	const mask = 1<<halfBits - 1
	left, right := x>>halfBits, x&mask
	for round := range uint32(4) {
		left, right = right, left^(mix(key, round, right)&mask)
	}
	return left<<halfBits | right
}

func mix(key string, round, half uint32) uint32 {
	block := binary.BigEndian.AppendUint32([]byte(key), round<<halfBits|half)
	sum := sha256.Sum256(block)
	return binary.BigEndian.Uint32(sum[:])
}
