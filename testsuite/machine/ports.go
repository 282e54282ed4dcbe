package machine

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// given are the ports that this process has given away.
var given sync.Map

// FreePorts are ports that nobody listens on, nor will by chance before a program of the
// test does: they lie below those that the kernel gives to whoever asks for any.
func FreePorts(t testing.TB, count int) (ports []int) {
	t.Helper()
	const lowest, many = 16000, 16000
	for len(ports) < count {
		port := lowest + rand.IntN(many)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	return ports
}
