// Package chaos kills whatever runs an experiment, at random moments, and checks
// at the end that nothing was lost and nothing ran twice. Everything random in a
// round follows from its seed, except for what the machine makes of it.
package chaos

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/testsuite/endtoend"
)

const (
	trials      = 40
	concurrency = 4
	strikes     = 9
	// roundLimit is far above what a round takes on a busy machine, half a minute.
	roundLimit = 6 * time.Minute
)

// round is one experiment that is struck again and again.
type round struct {
	t         testing.TB
	home      *endtoend.Home
	random    *rand.Rand
	id        string
	following *endtoend.Following
	killed    map[string]bool // attempts whose runner was killed
	kills     int
}

// Round runs one experiment under kills and checks it; it returns how many
// processes were killed. A failure ends the test and keeps the state directory.
func Round(t testing.TB, seed uint64) (kills int) {
	r := &round{t: t, home: endtoend.NewHome(t), random: rand.New(rand.NewPCG(seed, 0)), killed: map[string]bool{}}
	r.following = r.home.Follow(r.home.Experiment(endtoend.Plan{
		Trials: trials, Concurrency: concurrency, Steps: "2 + PERENNIAL_SEQUENCE % 4", Pause: "0.5",
	}))
	r.id = r.following.ID()
	for range strikes {
		r.wait(3 * time.Second)
		r.strike()
		r.mend()
	}
	r.finish()
	r.home.RequireExactlyOnce(r.id, trials, r.killed)
	r.home.RequireNothingLeft()
	return r.kills
}

// wait lets a random time pass: the moment of the next kill.
func (r *round) wait(most time.Duration) {
	time.Sleep(time.Duration(r.random.Int64N(int64(most))))
}

// strike kills one kind of process, or all of them at once.
func (r *round) strike() {
	switch r.random.IntN(6) {
	case 0, 1:
		r.kill(endtoend.Host)
	case 2:
		r.kill(endtoend.CLI)
	case 3:
		r.killRunner()
	case 4:
		r.kill(endtoend.Host, endtoend.CLI)
	default:
		// Trials are left to die with their runners: one that is killed alone has
		// failed, as a user's command may.
		r.kill(endtoend.Runner, endtoend.Host, endtoend.CLI)
	}
}

func (r *round) kill(roles ...endtoend.Role) {
	for _, process := range r.home.Kill(roles...) {
		r.count(process)
	}
}

func (r *round) killRunner() {
	runners := r.home.Processes(endtoend.Runner)
	if len(runners) == 0 {
		return
	}
	chosen := runners[r.random.IntN(len(runners))]
	chosen.Kill()
	r.count(chosen)
}

func (r *round) count(process endtoend.Process) {
	r.kills++
	if process.Role == endtoend.Runner {
		r.killed[process.Attempt()] = true
	}
}

// mend does what a user would do, sometimes late: bring a host up, or follow the
// experiment again. A follower that lives brings the host up by itself.
func (r *round) mend() {
	if !r.following.Ended() && r.random.IntN(2) == 0 {
		return
	}
	r.wait(2 * time.Second)
	if r.random.IntN(2) == 0 {
		r.home.Serve()
		return
	}
	r.follow()
}

func (r *round) follow() {
	if r.following.Ended() && r.home.Show(r.id).Status == "RUNNING" {
		r.following = r.home.Start("resume", r.id, "--output", "json")
	}
}

// finish has the experiment come to its end.
func (r *round) finish() {
	deadline := time.Now().Add(roundLimit)
	for r.home.Show(r.id).Status == "RUNNING" {
		require.True(r.t, time.Now().Before(deadline), "not done after %v: %+v\n%s", roundLimit, r.home.Trials(r.id), r.home.LogTail())
		r.follow()
		r.following.Wait(roundLimit)
	}
	require.Equal(r.t, "DONE", r.home.Show(r.id).Status)
	r.home.Kill(endtoend.CLI)
}
