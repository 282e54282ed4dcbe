package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/machine/agent"
	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/platforms/internal/machines"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// firstPatience is how long a placement waits for machines that nobody tried
	// to reach before, so that the first trials do not all go to the quickest.
	firstPatience = 5 * time.Second
	// roomInterval is how soon it is worth asking again for a GPU.
	roomInterval = time.Second
	// factsGood is how long a machine's word about its disk and load is taken, and
	// answerDue how long it may owe an answer before it is asked all the same.
	factsGood = 5 * time.Second
	answerDue = time.Second
	// leastDisk is the free space, in bytes, below which a machine gets no trials.
	leastDisk = 64 << 20
)

// Submit implements platforms.Platform. The machine is written down before it is
// told; from then on the run is there or nowhere.
func (p *platform) Submit(ctx context.Context, job platforms.Job) (platforms.Handle, error) {
	s, err := p.read(ctx, "submit")
	if err != nil {
		return platforms.Handle{}, err
	}
	placed, err := p.placements.find(job.Key)
	if err == nil && placed == nil {
		placed, err = p.place(ctx, job, s, p.placements.add)
	}
	if err != nil {
		return platforms.Handle{}, machines.Fault("submit", err)
	}
	if placed.Never != nil {
		return placed.handle(), nil
	}
	err = p.start(ctx, *placed, job, s)
	if platforms.NoRoom(err) {
		placed, err = p.moveOn(ctx, *placed, job, s, err)
	}
	if err != nil && p.lost(*placed) {
		// Poll says that the run is lost, and the next attempt may go elsewhere. A
		// machine that answers is none that was given up, however long nobody asked.
		err = nil
	}
	return placed.handle(), faultAt("submit", placed.Address, err)
}

// start has the run started on its machine, after earlier attempts elsewhere were
// ended as far as their machines can be reached.
func (p *platform) start(ctx context.Context, placed placement, job platforms.Job, s section) error {
	h, err := p.hostOf(ctx, placed.Address)
	if err != nil {
		return err
	}
	if err := p.endElsewhere(ctx, placed); err != nil {
		return err
	}
	submission := h.submission(job, s)
	err = h.doFor(ctx, placed, func(client *agent.Client) error { return h.submit(ctx, client, submission) })
	if err == nil {
		h.saw(job.Key, false)
	}
	return err
}

// submit has the machine start a run, and brings the code first where somebody
// removed it there.
func (h *host) submit(ctx context.Context, client *agent.Client, submission agent.Submission) error {
	_, err := client.Submit(ctx, submission)
	if !errors.Is(err, agent.ErrNoCode) {
		return err
	}
	experiment, hash := submission.Job.Key.Experiment, submission.Job.Workspace.Hash
	h.lacksCode(experiment, hash)
	if err := h.bringCode(ctx, experiment, hash); err != nil {
		return err
	}
	_, err = client.Submit(ctx, submission)
	return err
}

// submission is what the machine is told: no secret, and nothing that
// means something on this machine only.
func (h *host) submission(job platforms.Job, s section) agent.Submission {
	h.mutex.Lock()
	m := h.machine
	h.mutex.Unlock()
	if i := slices.IndexFunc(s.Machines, func(other machineEntry) bool { return other.Address == m.Address }); i >= 0 {
		m = s.Machines[i]
	}
	job.EnvironmentFile, job.Directory = "", ""
	if strings.TrimSpace(m.PreCommand) != "" {
		job.Command = both(m.PreCommand, job.Command)
	}
	return agent.Submission{Job: machines.Job(job), Terms: machine.Terms{
		PathPrefix: m.PythonPath, SharedCode: s.ReuseMode, LostAfter: s.lostAfter(),
		GPU: gpu.Request{UseActive: m.UseActiveGPU, Share: m.TrialsPerGPU, Indices: m.GPUIndices},
	}}
}

// gpuRequest is what a job asks for here; wanted is false where it asks for no GPU.
func (h *host) gpuRequest(job platforms.Job, s section) (request gpu.Request, wanted bool) {
	told := h.submission(job, s)
	return machine.GPURequest(told.Job, told.Terms)
}

// both is a command that runs another first, and nothing where that fails, whatever
// is in them: several lines, a comment at the end, ||.
func both(first, then string) string {
	return "{ " + first + "\n} && {\n" + then + "\n}"
}

// endElsewhere ends the attempts before this one on other machines. One that cannot
// be reached has been given up: supersedeOn ends what is there when it comes back.
func (p *platform) endElsewhere(ctx context.Context, placed placement) error {
	for attempt := 1; attempt < placed.Key.Attempt; attempt++ {
		key := placed.Key
		key.Attempt = attempt
		earlier, err := p.placements.find(key)
		if err != nil {
			return err
		}
		if earlier == nil || earlier.Never != nil || earlier.Address == placed.Address {
			continue
		}
		if client := p.reachable(*earlier); client != nil {
			if err := client.Supersede(ctx, key); err != nil && !errors.Is(err, agent.ErrGone) {
				return fmt.Errorf("end attempt %d on %s: %w", attempt, earlier.Address, err)
			}
		}
	}
	return nil
}

// reachable returns the agent of a machine that has one now which can tell of a run,
// else nil.
func (p *platform) reachable(placed placement) *agent.Client {
	h, err := p.hostOf(p.ctx(), placed.Address)
	if err != nil {
		return nil
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.link == nil {
		h.try()
		return nil
	}
	if h.link.tells(placed) != nil {
		return nil
	}
	return h.link.client
}

// supersedeOn ends, on a machine that can be reached again, the attempts of which
// there is a later one.
func (p *platform) supersedeOn(h *host) {
	earlier, err := p.placements.Superseded(p.section.Experiment)
	if err != nil {
		return // the sweeper finds them too
	}
	for _, placed := range earlier {
		if placed.Address != h.address {
			continue
		}
		if client := p.reachable(placed); client != nil {
			client.Supersede(p.ctx(), placed.Key)
		}
	}
}

// moveOn takes an attempt elsewhere for which its machine has no room any more: what
// was reserved for it there has lapsed while nobody submitted it. The machine is made
// never to start it, first. Where no other has room, the attempt waits for this one.
func (p *platform) moveOn(ctx context.Context, from placement, job platforms.Job, s section, denial error) (*placement, error) {
	elsewhere := s
	elsewhere.Machines = slices.DeleteFunc(slices.Clone(s.Machines), func(m machineEntry) bool { return m.Address == from.Address })
	moved, err := p.place(ctx, job, elsewhere, func(wanted placement) (*placement, error) {
		if err := p.forbid(ctx, from); err != nil {
			return nil, err
		}
		return p.placements.move(wanted)
	})
	if err != nil {
		return &from, alone(denial)
	}
	return moved, p.start(ctx, *moved, job, s)
}

// alone says of a denial that it is about one job.
func alone(denial error) error {
	var known *platforms.Error
	if !errors.As(denial, &known) {
		return denial
	}
	own := *known
	own.Own = true
	return &own
}

// forbid has a machine never start an attempt; an error where it may have.
func (p *platform) forbid(ctx context.Context, placed placement) error {
	return p.on(ctx, placed, "submit", func(client *agent.Client) error {
		ref := machine.Ref{Key: placed.Key}
		if err := client.Cancel(ctx, ref, trial.Intent{Cause: trial.CauseSuperseded}); err != nil {
			return err
		}
		findings, err := client.Poll(ctx, []agent.Question{{Ref: ref}})
		if err != nil {
			return err
		}
		if report := findings.Findings[0].Report; report.Exit == nil || report.Exit.Code != neverStarted || !report.Started.IsZero() {
			return errors.New("it may have been started there")
		}
		return nil
	})
}

// place chooses a machine for an attempt, brings it the code and has the choice written
// down.
func (p *platform) place(ctx context.Context, job platforms.Job, s section, write func(placement) (*placement, error)) (*placement, error) {
	candidates, faults := p.candidates(ctx, job, s)
	for _, h := range candidates {
		placed, err := p.placeOn(ctx, h, job, s, write)
		if err == nil {
			return placed, nil
		}
		faults = append(faults, faultAt("submit", h.address, err))
	}
	return nil, worst("submit", faults)
}

func (p *platform) placeOn(ctx context.Context, h *host, job platforms.Job, s section, write func(placement) (*placement, error)) (*placement, error) {
	up, err := h.up(ctx)
	if err == nil && job.Workspace.Hash != "" {
		err = h.bringCode(ctx, job.Key.Experiment, job.Workspace.Hash)
	}
	if err != nil {
		return nil, err
	}
	if request, wanted := h.gpuRequest(job, s); wanted {
		if err := up.client.Reserve(ctx, job.Key, request); err != nil {
			return nil, err
		}
	}
	h.saw(job.Key, false) // the next placement counts it
	placed, err := write(placement{Key: job.Key, Address: h.address, Site: up.welcome.Site, Boot: up.welcome.Boot})
	if err != nil || placed.Address != h.address {
		h.saw(job.Key, true)
	}
	return placed, err
}

// candidates are the machines that can take a job, the best first, and why the
// others cannot.
func (p *platform) candidates(ctx context.Context, job platforms.Job, s section) ([]*host, []error) {
	turn := p.turn()
	able, faults := make([]rated, len(s.Machines)), make([]error, len(s.Machines))
	var group sync.WaitGroup
	for i, m := range s.Machines {
		h := p.host(m)
		group.Go(func() {
			offer, err := h.fit(ctx, job, s)
			able[i], faults[i] = h.rate((i+turn)%len(s.Machines), offer), faultAt("submit", h.address, err)
		})
	}
	group.Wait()
	var fit []rated
	for i := range able {
		if faults[i] == nil {
			fit = append(fit, able[i])
		}
	}
	return sorted(fit), slices.DeleteFunc(faults, func(err error) bool { return err == nil })
}

// fit tells why a machine cannot take a job at present, or how many GPUs it has
// for it.
func (h *host) fit(ctx context.Context, job platforms.Job, s section) (free int, err error) {
	connecting, connected := context.WithTimeout(ctx, firstPatience)
	defer connected()
	up, err := h.up(connecting)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	if err := h.roomy(ctx, up.client); err != nil {
		return 0, err
	}
	request, wanted := h.gpuRequest(job, s)
	if !wanted {
		return 0, nil
	}
	offer, err := up.client.Offer(ctx, request)
	if err == nil && offer.Reason != "" {
		err = &platforms.Error{Code: platforms.Exhausted, Verb: "submit", After: roomInterval, Err: errors.New(offer.Reason)}
	}
	return offer.Free, err
}

// roomy tells whether a machine has no room on its disk.
func (h *host) roomy(ctx context.Context, client *agent.Client) error {
	facts, good := h.recall()
	if !good {
		var err error
		if facts, err = client.Facts(ctx); err != nil {
			return err
		}
		h.told(facts)
	}
	if facts.DiskFree < leastDisk {
		return platforms.Errorf(platforms.Exhausted, "submit", "only %d MiB are free on its disk: make room and it gets trials again", facts.DiskFree>>20)
	}
	return nil
}

// recall is what the machine said last, and whether that is good enough to give it
// a trial, which would be tied to it.
func (h *host) recall() (facts agent.Facts, good bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	owing := h.asked.After(h.heard) && time.Since(h.asked) > answerDue
	return h.facts, !owing && time.Since(h.looked) <= factsGood
}

// turn differs from call to call, so that ties take turns.
func (p *platform) turn() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.turns++
	return p.turns
}

// rated is a machine with what speaks for and against it.
type rated struct {
	host     *host
	free     int // GPUs that the job could have
	overload int // whole times that its load exceeds its cores
	trials   int // of ours that run there
	turn     int
}

func (h *host) rate(turn, free int) rated {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return rated{h, free, int(h.facts.Load / float64(max(1, h.facts.Cores))), len(h.open), turn}
}

// sorted puts machines with more free GPUs first, then idle ones before overloaded
// ones, then those with fewer trials; ties take turns.
func sorted(all []rated) []*host {
	slices.SortStableFunc(all, func(a, b rated) int {
		return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.overload, b.overload),
			cmp.Compare(a.trials, b.trials), cmp.Compare(a.turn, b.turn))
	})
	var hosts []*host
	for _, r := range all {
		hosts = append(hosts, r.host)
	}
	return hosts
}
