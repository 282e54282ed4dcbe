package fake_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/fake"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/trial"
)

func TestConformance(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		state, behaviours := t.TempDir(), &behaviours{}
		return platformtest.Subject{
			Kind:    func(*testing.T) platforms.Kind { return fake.New(fake.Options{StateDirectory: state}) },
			Options: behaviours.section,
			Job:     behaviours.job,
		}
	})
}

// behaviours are rules of a section, one for each job.
type behaviours struct {
	lock  sync.Mutex
	rules []map[string]any
}

func (b *behaviours) section() json.RawMessage {
	b.lock.Lock()
	defer b.lock.Unlock()
	text, err := json.Marshal(map[string]any{"rules": b.rules})
	if err != nil {
		panic(err)
	}
	return text
}

func (b *behaviours) job(t *testing.T, key trial.Key, behaviour platformtest.Behaviour) platforms.Job {
	duration := 0.1
	if behaviour.Forever {
		duration = 3600
	}
	rule := map[string]any{"trials": []int{key.Sequence}, "attempts": []int{key.Attempt}, "duration": duration, "exitCode": behaviour.ExitCode}
	var intermediates []any
	for i, value := range behaviour.Intermediates {
		intermediates = append(intermediates, map[string]any{"at": 0.01 * float64(i), "value": value})
	}
	rule["intermediates"] = intermediates
	if behaviour.Final != nil {
		rule["final"] = *behaviour.Final
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	b.rules = append(b.rules, rule)
	return platformtest.ShellJob(t, key, behaviour)
}
