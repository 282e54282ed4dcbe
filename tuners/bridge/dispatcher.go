package bridge

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

//go:embed dispatcher.py
var dispatcherProgram string

// bootstrap runs a program from the environment, where no list of processes shows it.
const bootstrap = `import os; exec(compile(os.environ.pop("PERENNIAL_PROGRAM"), "perennial.py", "exec"))`

// dispatcher is NNI's dispatcher with the algorithms it hosts. It is given one
// command at a time, and the next when it is through with that.
type dispatcher struct {
	spec    Spec
	child   *child
	door    *door
	channel channel
	done    chan error // the word on the last command
	changed chan struct{}
	judges  bool

	mu       sync.Mutex
	failure  error
	pending  []proposed // proposals that no ask has taken yet
	refused  bool       // it said that it has no more, and was not told of anything since
	open     map[int]*open
	ids      map[string]int // trial id → number, of open trials
	stops    []Stop
	diverged bool // a recorded ask was not what it proposed: it is not asked to repeat any more
	asked    bool // its last answer to a request stands
}

// proposed is a parameter set as the dispatcher sent it.
type proposed struct {
	content    string
	id         json.RawMessage // parameter_id
	parameters trial.Parameters
}

// open is a trial that has not ended.
type open struct {
	content  string          // what the dispatcher sent for it, or what stands for that
	id       json.RawMessage // parameter_id; null where it did not propose the trial
	asked    trial.Asked
	reported int // intermediate results it was fed
	attempt  int
	event    int64
}

func openDispatcher(spec Spec) (Process, error) {
	python, err := interpreter(spec.Home.Environment)
	if err != nil {
		return nil, err
	}
	d := &dispatcher{
		spec: spec, done: make(chan error, 1), changed: make(chan struct{}, 1),
		open: map[int]*open{}, ids: map[string]int{},
	}
	if d.door, err = openDoor(); err != nil {
		return nil, err
	}
	defer d.door.Close()
	if err := d.begin(python); err != nil {
		d.stop(0)
		return nil, spec.about(err)
	}
	return d, nil
}

// begin starts the process and brings it to where it knows its search space.
func (d *dispatcher) begin(python string) error {
	command := exec.Command(python, "-c", bootstrap)
	command.Dir = d.spec.Home.Log
	settings, err := json.Marshal(map[string]any{"tuner": d.spec.Tuner, "assessor": d.spec.Assessor, "seed": uint32(d.spec.Seed)})
	if err != nil {
		return err
	}
	command.Env = append(d.spec.environment(d.door.url), "PERENNIAL_PROGRAM="+dispatcherProgram, "PERENNIAL_DISPATCHER="+string(settings))
	plumbing, err := newPlumbing(command)
	if err != nil {
		return err
	}
	defer plumbing.Close()
	if d.child, err = d.spec.start(command); err != nil {
		return err
	}
	plumbing.handedOver()
	deadline := time.NewTimer(d.spec.patience())
	defer deadline.Stop()
	if d.channel, err = d.connect(plumbing, deadline.C); err != nil {
		return err
	}
	go d.listen()
	if err := d.await(deadline.C); err != nil {
		return err
	}
	return d.tell(codeInitialize, string(d.spec.Space))
}

// plumbing are the descriptors 3, 4 and 5 of the process: the pipes of NNI up to
// 2.7, and the one line that says which release it is.
type plumbing struct {
	to, from, control *os.File // our ends
	theirs            []*os.File
}

func newPlumbing(command *exec.Cmd) (*plumbing, error) {
	var p plumbing
	theirRead, to, err := os.Pipe()
	from, theirWrite, err2 := os.Pipe()
	control, theirControl, err3 := os.Pipe()
	p.theirs, p.to, p.from, p.control = []*os.File{theirRead, theirWrite, theirControl}, to, from, control
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	command.ExtraFiles = p.theirs
	return &p, nil
}

// handedOver closes the ends that are the process's own.
func (p *plumbing) handedOver() {
	for _, file := range p.theirs {
		file.Close()
	}
}

// Close closes what is left; where pipes are the channel these are taken out before.
func (p *plumbing) Close() {
	for _, file := range append(p.theirs, p.to, p.from, p.control) {
		if file != nil {
			file.Close()
		}
	}
}

// connect waits until the process says which release of NNI it has, and makes the
// connection that this release speaks over.
func (d *dispatcher) connect(p *plumbing, deadline <-chan time.Time) (channel, error) {
	lines := make(chan string, 1)
	go func(control *os.File) {
		line, _ := bufio.NewReader(control).ReadString('\n')
		lines <- line
	}(p.control)
	var release struct{ Version, Framing string }
	select {
	case line := <-lines:
		if json.Unmarshal([]byte(line), &release) != nil {
			return nil, d.child.death()
		}
	case <-deadline:
		return nil, d.late()
	}
	if release.Framing == "pipes" {
		made := newPipes(p.to, p.from)
		p.to, p.from = nil, nil
		return made, nil
	}
	return d.greet(release.Framing == "json", deadline)
}

func (d *dispatcher) greet(objects bool, deadline <-chan time.Time) (channel, error) {
	var connection *websocket.Conn
	select {
	case connection = <-d.door.arrivals:
		return &socket{connection: connection, objects: objects}, nil
	case <-d.child.exited:
		return nil, d.child.death()
	case <-deadline:
		return nil, d.late()
	}
}

func (d *dispatcher) late() error {
	return fmt.Errorf("it did not answer for %s and was ended", d.spec.patience())
}

// listen takes what the process says, until it has said its last word.
func (d *dispatcher) listen() {
	for {
		f, err := d.channel.receive()
		if err == nil {
			err = d.hear(f)
		} else if !errors.Is(err, errNonsense) {
			err = d.child.death()
		}
		if err != nil {
			d.fail(err)
			return
		}
	}
}

// fail makes err the answer to everything from now on.
func (d *dispatcher) fail(err error) {
	d.mu.Lock()
	if d.failure == nil {
		d.failure = err
	}
	d.mu.Unlock()
	d.answer(err)
	d.notify()
}

func (d *dispatcher) answer(err error) {
	select {
	case d.done <- err:
	default:
	}
}

func (d *dispatcher) notify() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// hear treats one frame.
func (d *dispatcher) hear(f frame) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch f.Code {
	case codeInitialized:
		return d.word(f.Content)
	case codeTrial:
		return d.proposal(f.Content)
	case codeNoMore:
		d.refused = true
	case codeKill:
		return d.kill(f.Content)
	case codeError:
		return d.child.broken(f.Content)
	case "_nop_", "_bye_":
	default:
		return nonsense(f.Code + f.Content)
	}
	return nil
}

// word treats what dispatcher.py has the process say beyond NNI's protocol.
func (d *dispatcher) word(content string) error {
	word, rest, _ := strings.Cut(content, " ")
	switch word {
	case "done":
		d.answer(nil)
	case "ready":
		var ready struct{ Judges bool }
		if err := json.Unmarshal([]byte(rest), &ready); err != nil {
			return nonsense(content)
		}
		d.judges = ready.Judges
		d.answer(nil)
	case "error":
		return d.child.broken(rest)
	}
	return nil
}

func (d *dispatcher) proposal(content string) error {
	var p struct {
		ID         json.RawMessage `json:"parameter_id"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal([]byte(content), &p); err != nil {
		return fmt.Errorf("it proposed what is no JSON: %s", cut(content))
	}
	if !strings.HasPrefix(strings.TrimSpace(string(p.Parameters)), "{") {
		return fmt.Errorf("it proposed %s: want an object, a parameter's name for each key", cut(string(p.Parameters)))
	}
	d.pending = append(d.pending, proposed{content, p.ID, trial.Parameters(p.Parameters)})
	d.refused = false
	d.notify()
	return nil
}

func (d *dispatcher) kill(content string) error {
	var id string
	if json.Unmarshal([]byte(content), &id) != nil {
		return nonsense(codeKill + content)
	}
	sequence, known := d.ids[id]
	if !known {
		return nil // it has ended meanwhile
	}
	o := d.open[sequence]
	judge := d.spec.Assessor
	if judge == nil {
		judge = d.spec.Tuner
	}
	text := fmt.Sprintf("%s wanted it stopped after %d intermediate results", judge, o.reported)
	d.stops = append(d.stops, Stop{Sequence: sequence, Attempt: o.attempt, Event: o.event,
		Reason: trial.Reason{Code: ReasonStopped, Text: text}})
	d.notify()
	return nil
}

// tell gives the process a command and waits until it is through with it.
func (d *dispatcher) tell(code, content string) error {
	d.mu.Lock()
	failure := d.failure
	d.mu.Unlock()
	if failure != nil {
		return failure
	}
	select {
	case <-d.done: // of a command that the algorithm gave itself
	default:
	}
	deadline := time.NewTimer(d.spec.patience())
	defer deadline.Stop()
	select {
	case err := <-d.post(frame{code, content}):
		if err != nil {
			return d.child.death()
		}
	case <-deadline.C:
		d.fail(d.late())
		return d.late()
	}
	return d.await(deadline.C)
}

// post sends a frame. Who does not read holds up nobody: its end ends the sending.
func (d *dispatcher) post(f frame) <-chan error {
	sent := make(chan error, 1)
	go func() { sent <- d.channel.send(f) }()
	return sent
}

func (d *dispatcher) await(deadline <-chan time.Time) error {
	select {
	case err := <-d.done:
		return err
	case <-deadline:
		d.fail(d.late())
		return d.late()
	}
}

// Judges implements Process.
func (d *dispatcher) Judges() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.judges
}

// Stops implements Process.
func (d *dispatcher) Stops() []Stop {
	d.mu.Lock()
	defer d.mu.Unlock()
	stops := d.stops
	d.stops = nil
	return stops
}

// Failure implements Process.
func (d *dispatcher) Failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil {
		return d.spec.about(d.failure)
	}
	return nil
}

// Changed implements Process.
func (d *dispatcher) Changed() <-chan struct{} { return d.changed }

// goodbye is how long a process has to end by itself when it is told to.
const goodbye = 5 * time.Second

// Close implements Process. A process in good order is told to terminate first.
func (d *dispatcher) Close() error {
	d.mu.Lock()
	healthy := d.failure == nil
	d.mu.Unlock()
	moment := time.Duration(0)
	if healthy {
		d.post(frame{Code: codeTerminate})
		moment = goodbye
	}
	d.stop(moment)
	return nil
}

func (d *dispatcher) stop(moment time.Duration) {
	if d.child != nil {
		d.child.end(moment)
	}
	if d.channel != nil {
		d.channel.Close()
	}
}

// Propose implements tuners.Tuner. A proposal that the process has made stands until
// an ask takes it.
func (d *dispatcher) Propose(int) (tuners.Proposal, error) {
	if made, ok := d.first(); ok {
		return made, nil
	}
	if !d.asked {
		if err := d.tell(codeRequest, "1"); err != nil {
			return tuners.Proposal{}, d.spec.about(err)
		}
		d.asked = true
	}
	if made, ok := d.first(); ok {
		return made, nil
	}
	return d.nothing(), nil
}

func (d *dispatcher) first() (tuners.Proposal, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) == 0 || d.failure != nil {
		return tuners.Proposal{}, false
	}
	return tuners.Proposal{Parameters: d.pending[0].parameters, ParameterID: d.pending[0].id}, true
}

// nothing is what no proposal means. NNI's manager waits until something changes
// where the tuner has no more; when nothing is left that could, that is the end.
func (d *dispatcher) nothing() tuners.Proposal {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused && len(d.open) == 0 {
		return tuners.Proposal{Answer: tuners.Exhausted}
	}
	return tuners.Proposal{Answer: tuners.Wait}
}
