package executable

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/perennial-ml/perennial/platforms"
)

// settings are a section's own keys.
type settings struct {
	Executable string          `json:"executable"` // absolute
	Options    json.RawMessage `json:"options"`    // the executable's; it gets them as they are
	// Timeout bounds one call, in seconds; Concurrency how many are under way at once.
	Timeout     float64 `json:"timeout"`
	Concurrency int     `json:"concurrency"`
}

const (
	usualTimeout     = 60
	usualConcurrency = 4
)

func (s settings) patience() time.Duration { return time.Duration(s.Timeout * float64(time.Second)) }

func parse(options json.RawMessage) (settings, error) {
	s := settings{Timeout: usualTimeout, Concurrency: usualConcurrency}
	if len(options) > 0 {
		if err := json.Unmarshal(options, &s); err != nil {
			return s, err
		}
	}
	if len(s.Options) == 0 {
		s.Options = json.RawMessage("{}")
	}
	return s, nil
}

// checkOptions tells what is wrong with a section's own keys, without a look at what
// is the executable's.
func checkOptions(options json.RawMessage) error {
	s, err := parse(options)
	if err != nil {
		return err
	}
	wrong := func(message, hint string) error {
		return platforms.OptionFaults{{Field: "executable", Message: message, Hint: hint}}
	}
	info, err := os.Stat(s.Executable)
	switch {
	case s.Executable == "":
		return wrong("is missing", "the path of a program that is a platform")
	case !filepath.IsAbs(s.Executable):
		return wrong("is no absolute path", "")
	case err != nil:
		return wrong("cannot be read: "+err.Error(), "")
	case info.IsDir() || info.Mode()&0o111 == 0:
		return wrong("is no program", "chmod +x "+s.Executable)
	}
	return nil
}
