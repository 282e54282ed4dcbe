package door

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many tokens that are refused one address may try at once, and how soon one more.
const (
	failuresAtOnce = 10
	failureEvery   = 6 * time.Second
)

// addressLimit is how many addresses are remembered at a time.
const addressLimit = 4096

// failures remember by address whose tokens were refused. The zero value remembers none.
type failures struct {
	mu        sync.Mutex
	addresses map[netip.Prefix]*rate.Limiter
}

// tooMany tells whether so many tokens of an address were refused that it has to wait.
func (f *failures) tooMany(remote string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	limiter, known := f.addresses[network(remote)]
	return known && limiter.Tokens() < 1
}

// add remembers that a token of an address was refused.
func (f *failures) add(remote string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.addresses == nil || len(f.addresses) >= addressLimit {
		f.forget()
	}
	from := network(remote)
	limiter, known := f.addresses[from]
	if !known {
		limiter = rate.NewLimiter(rate.Every(failureEvery), failuresAtOnce)
		f.addresses[from] = limiter
	}
	limiter.Allow()
}

// forget keeps those only who still have to wait, as far as there is room: who has many
// networks gains little by that, and nobody else is let in.
func (f *failures) forget() {
	kept := map[netip.Prefix]*rate.Limiter{}
	for from, limiter := range f.addresses {
		if limiter.Tokens() < 1 && len(kept) < addressLimit/2 {
			kept[from] = limiter
		}
	}
	f.addresses = kept
}

// network is all that one caller has: an address of IPv4, or a subnet of IPv6.
func network(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	bits := 64
	if address.Is4() {
		bits = 32
	}
	prefix, _ := address.Prefix(bits) // which every address has
	return prefix
}
