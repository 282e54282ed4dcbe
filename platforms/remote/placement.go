package remote

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	placementFormat = 1
	placementSuffix = ".placement"
)

// placement says which machine has an attempt. It is written once, before anything
// is started there, and never changed.
type placement struct {
	Format int       `json:"format"`
	Key    trial.Key `json:"key"`
	Address
	// Site and Boot are those of the machine when it was chosen: only where our
	// directory still is that Site can anybody there tell of the attempt.
	Site string `json:"site,omitempty"`
	Boot string `json:"boot,omitempty"`
	// Never is why the attempt is on no machine and never will be.
	Never *trial.Intent `json:"never,omitempty"`
}

// Sound implements rundir.Entry.
func (p placement) Sound() bool { return p.Host != "" || p.Never != nil }

// foreign tells whether an agent is in another directory than the one in which the
// attempt was placed, as far as is known of both.
func (p placement) foreign(to agent.Welcome) bool {
	return p.Site != "" && to.Site != "" && p.Site != to.Site
}

// host is the machine for people, empty where there never will be one.
func (p placement) host() string {
	if p.Never != nil {
		return ""
	}
	return p.Address.String()
}

func (p placement) handle() platforms.Handle {
	data, _ := json.Marshal(p) // plain data cannot fail
	return platforms.Handle{Format: handleFormat, Platform: Name, Key: p.Key, Host: p.host(), Data: data}
}

// placements know where every attempt is.
type placements struct{ rundir.Register[placement] }

func newPlacements(directory string) placements {
	return placements{rundir.Register[placement]{Directory: directory, Suffix: placementSuffix, Format: placementFormat}}
}

// find returns nil for an attempt nobody placed.
func (p placements) find(key trial.Key) (*placement, error) {
	placed, err := p.Find(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &placed, err
}

// move places an attempt elsewhere that its machine will never start.
func (p placements) move(wanted placement) (*placement, error) {
	wanted.Format = placementFormat
	return &wanted, p.Replace(wanted.Key, wanted)
}

// add places an attempt and returns where it is, which another may have decided
// before.
func (p placements) add(wanted placement) (*placement, error) {
	wanted.Format = placementFormat
	placed, err := p.Add(wanted.Key, wanted)
	return &placed, err
}
