package platforms

import (
	"encoding/json"
	"fmt"
)

const sshPort = 22

// Host returns the machine that has the run as people write it, such as
// "ada@gpu1:2222"; empty where the platform names none. A platform that chooses
// among machines names the chosen one in Data: "host" and, where they are not the
// usual ones, "user" and "port".
func (h Handle) Host() string {
	var at struct {
		Host, User string
		Port       int
	}
	if json.Unmarshal(h.Data, &at) != nil || at.Host == "" {
		return ""
	}
	if at.User != "" {
		at.Host = at.User + "@" + at.Host
	}
	if at.Port != 0 && at.Port != sshPort {
		at.Host = fmt.Sprintf("%s:%d", at.Host, at.Port)
	}
	return at.Host
}
