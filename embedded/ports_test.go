package embedded_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listeningPorts are the TCP addresses that this process listens on.
func listeningPorts(t *testing.T) []string {
	mine := ownSockets(t)
	var addresses []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		addresses = append(addresses, listeners(t, table, mine)...)
	}
	return addresses
}

func ownSockets(t *testing.T) map[string]bool {
	descriptors, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	sockets := map[string]bool{}
	for _, descriptor := range descriptors {
		target, _ := os.Readlink("/proc/self/fd/" + descriptor.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return sockets
}

func listeners(t *testing.T, table string, mine map[string]bool) []string {
	file, err := os.Open(table)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	defer file.Close()
	var addresses []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		const listening, state, inode = "0A", 3, 9
		if fields[state] == listening && mine[fields[inode]] {
			addresses = append(addresses, readable(t, fields[1]))
		}
	}
	return addresses
}

// readable turns the kernel's little-endian hexadecimal address into host:port.
func readable(t *testing.T, kernel string) string {
	host, port, _ := strings.Cut(kernel, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	require.NoError(t, err)
	if len(host) != 8 {
		return net.JoinHostPort("::", fmt.Sprint(number))
	}
	var ip [4]byte
	for i := range ip {
		part, err := strconv.ParseUint(host[6-2*i:8-2*i], 16, 8)
		require.NoError(t, err)
		ip[i] = byte(part)
	}
	return net.JoinHostPort(net.IP(ip[:]).String(), fmt.Sprint(number))
}
