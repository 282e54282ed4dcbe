package host

import (
	"slices"
	"strings"
)

// passed are the variables that a host in the background keeps of whoever started
// it: what it needs to find programs, places and its Temporal. It lives long and
// serves every experiment, so nothing else of one caller's stays in its memory;
// trials get theirs from the file that run keeps for each experiment.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
	"DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "KUBECONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GOCOVERDIR",
}

// passedFamilies are the beginnings of such names.
var passedFamilies = []string{"PERENNIAL_", "TEMPORAL_", "XDG_", "LC_", "CUDA_", "NVIDIA_", "OTEL_"}

func environment(caller []string) []string {
	var kept []string
	for _, variable := range caller {
		name, _, _ := strings.Cut(variable, "=")
		family := slices.ContainsFunc(passedFamilies, func(family string) bool { return strings.HasPrefix(name, family) })
		if family || slices.Contains(passed, name) {
			kept = append(kept, variable)
		}
	}
	return kept
}
