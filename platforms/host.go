package platforms

import (
	"encoding/json"
	"fmt"
)

const sshPort = 22

// HostName writes a machine that is reached by SSH as people do; user and port may
// be empty.
func HostName(user, host string, port int) string {
	if user != "" {
		host = user + "@" + host
	}
	if port != 0 && port != sshPort {
		host = fmt.Sprintf("%s:%d", host, port)
	}
	return host
}

// UnmarshalJSON reads a Handle, also of the time when Host was in Data only.
func (h *Handle) UnmarshalJSON(text []byte) error {
	type plain Handle
	if err := json.Unmarshal(text, (*plain)(h)); err != nil {
		return err
	}
	var at struct {
		Host, User string
		Port       int
	}
	if h.Host == "" && json.Unmarshal(h.Data, &at) == nil && at.Host != "" {
		h.Host = HostName(at.User, at.Host, at.Port)
	}
	return nil
}
