package kube

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/perennial-ml/perennial/platforms"
)

// CodeSource is where code comes from that is not packed out of the code directory, or
// where what is packed is kept. The zero value is none: it is packed, and kept in the
// cluster's own database.
type CodeSource struct {
	Image  string `json:"image"`  // that has it; empty: the trial's own has, or URL
	Path   string `json:"path"`   // of the directory in the image
	URL    string `json:"url"`    // of a tar archive, packed by gzip
	SHA256 string `json:"sha256"` // of the archive, in hex
	// Volume is one of the pods' volumes, onto which the code directory is brought, however
	// large it is.
	Volume string `json:"volume"`
}

// sourceName is the init container that brings code.
const sourceName = "perennial-code"

// codeHome is where code is in a pod.
const codeHome = home + "/code"

const copyCode = `mkdir -p %[1]s && cp -R '%[2]s/.' %[1]s`

// Nothing is installed in an image: one of the three programs is in most.
const fetchCode = `set -e; url='%[2]s'; to=%[3]s/code.tar.gz
if command -v curl >/dev/null; then curl -fsSL --retry 3 -o $to "$url"
elif command -v wget >/dev/null; then wget -q -O $to "$url"
elif command -v python3 >/dev/null; then python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$url" $to
else echo "the image has neither curl nor wget nor python3"; exit 1; fi
sum=$(sha256sum $to); [ "${sum%%%% *}" = '%[4]s' ] || { echo "what $url gives has the SHA-256 sum ${sum%%%% *}, not code.sha256"; exit 1; }
mkdir -p %[1]s && tar -xzf $to -C %[1]s && rm $to`

var sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Check says what is wrong with a source of pods that have these volumes.
func (c CodeSource) Check(volumes []any) (faults platforms.OptionFaults) {
	wrong := func(field, message, hint string) {
		faults = append(faults, platforms.OptionFault{Field: "code." + field, Message: message, Hint: hint})
	}
	if c == (CodeSource{}) {
		return nil
	}
	if c.Volume != "" {
		if c != (CodeSource{Volume: c.Volume}) {
			wrong("volume", "is where the code directory is brought, and nothing else may say where code is", "write it alone")
		}
		if !hasPart(volumes, c.Volume) {
			wrong("volume", fmt.Sprintf("%q is the name of none of volumes", c.Volume), "volumes: [{name: "+c.Volume+", persistentVolumeClaim: {claimName: …}}]")
		}
		return faults
	}
	if (c.URL != "") == (c.Path != "") {
		wrong("path", "and url must not both stand there, nor neither", "volume, to which the code directory is brought, path of a directory in an image, or url of a .tar.gz")
	}
	if c.URL != "" && (c.Image != "" || !strings.HasPrefix(c.URL, "https://") && !strings.HasPrefix(c.URL, "http://")) {
		wrong("url", "must be the address of a .tar.gz by http or https, without an image", "https://storage.example.com/code.tar.gz")
	}
	if c.URL != "" && !sha256Sum.MatchString(c.SHA256) {
		wrong("sha256", "must be the archive's SHA-256 sum, 64 hexadecimal digits in small letters", "sha256sum code.tar.gz")
	}
	if c.Path != "" && !path.IsAbs(c.Path) {
		wrong("path", fmt.Sprintf("%q must be absolute", c.Path), "/workspace")
	}
	return faults
}

// directory is where a trial finds its code.
func (c CodeSource) directory() string {
	if c.URL != "" || c.Image != "" {
		return codeHome
	}
	return c.Path
}

// container brings the code into a pod whose trial has the image; nil: nothing is to be
// brought.
func (c CodeSource) container(image string) object {
	switch {
	case c.URL != "":
		return bringer(sourceName, image, fmt.Sprintf(fetchCode, codeHome, quoted(c.URL), home, c.SHA256))
	case c.Image != "":
		return bringer(sourceName, c.Image, fmt.Sprintf(copyCode, codeHome, quoted(path.Clean(c.Path))))
	}
	return nil
}

// bringer is an init container that puts something into the pod's home. What it says last
// is why it fails.
func bringer(name, image, script string) object {
	return object{
		"name": name, "image": image, "command": []any{"sh", "-c", script},
		"terminationMessagePolicy": "FallbackToLogsOnError",
		"resources":                object{"requests": object{"cpu": "10m", "memory": "32Mi"}, "limits": object{"cpu": "1", "memory": "512Mi"}},
		"volumeMounts":             []any{mount("perennial-home", home)},
	}
}

// runnerName is the init container that brings the runner out of an image.
const runnerName = "perennial-runner"

const copyRunner = `cp "$(command -v perennial-runner)" %[1]s/new && chmod 755 %[1]s/new && mv %[1]s/new %[1]s/runner`

// bringers are the init containers of a role's pods.
func (s Section) bringers(r Role) (all []any) {
	if s.RunnerImage != "" {
		all = append(all, bringer(runnerName, s.RunnerImage, fmt.Sprintf(copyRunner, home)))
	}
	if brings := s.Code.container(r.Pod.Image); brings != nil {
		all = append(all, brings)
	}
	return all
}

// quoted is a text within the single quotes of a shell.
func quoted(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }
