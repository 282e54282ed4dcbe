package bridge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/trial"
	"github.com/perennial-ml/perennial/tuners"
)

// Line is one message of the protocol for algorithms in any language: a JSON object
// on a line of its own. Which fields it has depends on Op; what is no answer to
// anything has no Op.
type Line struct {
	Op string `json:"op,omitempty"`

	// open: what the algorithm works on, once and first. Role is "tuner" or
	// "assessor", Mode "minimize" or "maximize".
	Role      string          `json:"role,omitempty"`
	Space     json.RawMessage `json:"searchSpace,omitempty"` // in space, too: a new one
	Mode      string          `json:"mode,omitempty"`
	Seed      *uint64         `json:"seed,omitempty"` // below 2^32
	Arguments json.RawMessage `json:"arguments,omitempty"`

	// suggest, asked, observe and intermediate, and every answer: the trial.
	Trial *int `json:"trial,omitempty"`
	// asked: what the trial runs with where that is not what was suggested; an
	// answer to suggest: what it shall run with.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Customized bool            `json:"customized,omitempty"` // asked: a person chose them
	// beside Parameters: what the algorithm knows the trial by, where that is not its
	// number; a text or a number.
	ParameterID json.RawMessage `json:"parameterId,omitempty"`

	Status   string          `json:"status,omitempty"`   // observe: a Status…
	Sequence *int            `json:"sequence,omitempty"` // intermediate: from 0, without a gap
	Value    json.RawMessage `json:"value,omitempty"`    // observe, intermediate: a number; null where there is none
	Metric   json.RawMessage `json:"metric,omitempty"`   // all that was reported, where that is more

	// Answers to suggest, beside Parameters, and an answer to intermediate, which
	// may come at any time and need not.
	Wait      bool `json:"wait,omitempty"`
	Exhausted bool `json:"exhausted,omitempty"`
	Stop      bool `json:"stop,omitempty"`
}

// Values of Line.Op.
const (
	OpOpen         = "open"
	OpSpace        = "space"
	OpSuggest      = "suggest"
	OpAsked        = "asked"
	OpObserve      = "observe"
	OpIntermediate = "intermediate"
)

// statuses are how Line.Status names the states in which trials end.
var statuses = map[trial.State]string{
	trial.Succeeded: "succeeded", trial.Failed: "failed", trial.EarlyStopped: "stopped",
	trial.UserCanceled: "canceled", trial.SysCanceled: "canceled",
}

// lines is a process that speaks the protocol of Line.
type lines struct {
	spec    Spec
	child   *child
	to      *os.File
	from    *os.File
	answers chan Line
	changed chan struct{}

	mu       sync.Mutex
	failure  error
	dead     chan struct{} // closed with the failure
	suggest  map[int]tuners.Proposal
	last     *tuners.Proposal // stands until an event comes
	lastFor  int
	open     map[int]*watched
	stops    []Stop
	diverged bool
}

// watched is a trial that has not ended.
type watched struct {
	reported int
	attempt  int
	event    int64
}

func openLines(spec Spec) (Process, error) {
	l := &lines{
		spec: spec, answers: make(chan Line, 1), changed: make(chan struct{}, 1), dead: make(chan struct{}),
		suggest: map[int]tuners.Proposal{}, open: map[int]*watched{},
	}
	if err := l.begin(); err != nil {
		l.Close()
		return nil, l.spec.about(err)
	}
	return l, nil
}

func (l *lines) begin() error {
	algorithm := l.spec.subject()
	command := exec.Command("/bin/sh", "-c", algorithm.Command)
	command.Dir = algorithm.CodeDirectory
	command.Env = append(append([]string{}, l.spec.Home.Environment...), "CUDA_VISIBLE_DEVICES="+l.spec.visible())
	theirIn, to, err := os.Pipe()
	from, theirOut, err2 := os.Pipe()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	l.to, l.from = to, from
	command.Stdin, command.Stdout = theirIn, theirOut
	l.child, err = l.spec.start(command)
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		l.child = nil
		return err
	}
	go l.listen()
	return l.say(l.opening(algorithm))
}

func (l *lines) opening(algorithm *Algorithm) Line {
	seed := l.spec.Seed % (1 << 32)
	line := Line{Op: OpOpen, Role: l.spec.role(), Space: l.spec.Space, Mode: Mode(algorithm.Arguments), Seed: &seed,
		Arguments: algorithm.Arguments}
	if len(line.Arguments) == 0 {
		line.Arguments = json.RawMessage("{}")
	}
	return line
}

// Mode is what an algorithm's arguments say is better: "minimize" where their
// optimize_mode says so, else "maximize", as for NNI's tuners.
func Mode(arguments json.RawMessage) string {
	var given struct {
		Mode string `json:"optimize_mode"`
	}
	if json.Unmarshal(arguments, &given) == nil && given.Mode == "minimize" {
		return "minimize"
	}
	return "maximize"
}

// listen takes what the process says, until it has said its last word.
func (l *lines) listen() {
	scanner := bufio.NewScanner(l.from)
	scanner.Buffer(nil, maxContent)
	for scanner.Scan() {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		var line Line
		if json.Unmarshal(scanner.Bytes(), &line) != nil || line.Trial == nil {
			l.fail(fmt.Errorf("%w; its standard output is for answers only, standard error for all else", nonsense(scanner.Text())))
			return
		}
		if err := l.hear(line); err != nil {
			l.fail(err)
			return
		}
	}
	l.fail(errors.Join(scanner.Err(), l.child.death()))
}

func (l *lines) hear(line Line) error {
	if !line.Stop {
		select {
		case l.answers <- line:
			return nil
		default:
			return fmt.Errorf("it answered for trial %d what nobody asked", *line.Trial)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.open[*line.Trial]
	if w == nil {
		return nil // it has ended meanwhile
	}
	text := fmt.Sprintf("%s wanted it stopped after %d intermediate results", l.spec.subject(), w.reported)
	l.stops = append(l.stops, Stop{Sequence: *line.Trial, Attempt: w.attempt, Event: w.event,
		Reason: trial.Reason{Code: ReasonStopped, Text: text}})
	l.notify()
	return nil
}

func (l *lines) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == nil {
		l.failure = err
		close(l.dead)
		l.notify()
	}
}

func (l *lines) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

func (l *lines) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// say writes a line. A process that does not read for as long as it may take is
// taken for hung.
func (l *lines) say(line Line) error {
	if err := l.failed(); err != nil {
		return err
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if err := l.to.SetWriteDeadline(time.Now().Add(l.spec.patience())); err != nil {
		return err
	}
	_, err = l.to.Write(append(text, '\n'))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.fail(l.late())
	} else if err != nil {
		l.fail(l.child.death())
	}
	return l.failed()
}

func (l *lines) late() error {
	return fmt.Errorf("it did not answer for %s and was ended", l.spec.patience())
}

// Propose implements tuners.Tuner.
func (l *lines) Propose(n int) (tuners.Proposal, error) {
	if l.last != nil && l.lastFor == n && !l.waitsForNothing() {
		return *l.last, nil
	}
	made, err := l.request(n)
	if err != nil {
		return made, l.spec.about(err)
	}
	l.last, l.lastFor = &made, n
	return made, nil
}

// waitsForNothing tells whether the process would wait while no trial runs, whose end
// would have it asked again: it may be waiting for something of its own.
func (l *lines) waitsForNothing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Answer == tuners.Wait && len(l.open) == 0
}

// request has the process suggest parameters for a trial.
func (l *lines) request(n int) (tuners.Proposal, error) {
	if err := l.say(Line{Op: OpSuggest, Trial: &n}); err != nil {
		return tuners.Proposal{}, err
	}
	select {
	case answer := <-l.answers:
		return l.read(answer, n)
	case <-l.dead:
		return tuners.Proposal{}, l.failed()
	case <-time.After(l.spec.patience()):
		l.fail(l.late())
		return tuners.Proposal{}, l.failed()
	}
}

func (l *lines) read(answer Line, n int) (tuners.Proposal, error) {
	switch {
	case *answer.Trial != n:
		l.fail(fmt.Errorf("it answered for trial %d, and was asked for trial %d", *answer.Trial, n))
	case answer.Exhausted:
		return tuners.Proposal{Answer: tuners.Exhausted}, nil
	case answer.Wait:
		return tuners.Proposal{Answer: tuners.Wait}, nil
	case !bytes.HasPrefix(answer.Parameters, []byte("{")):
		l.fail(fmt.Errorf(`it suggested %.100s for trial %d: want "parameters" with an object, "wait" or "exhausted"`, answer.Parameters, n))
	default:
		l.suggest[n] = tuners.Proposal{Parameters: trial.Parameters(answer.Parameters), ParameterID: ownID(answer.ParameterID, n)}
		return l.suggest[n], nil
	}
	return tuners.Proposal{}, l.failed()
}

// Apply implements tuners.Tuner.
func (l *lines) Apply(event trial.Event) error {
	if err := tell(l, event); err != nil {
		return l.spec.about(err)
	}
	return nil
}

func (l *lines) obey(_ trial.Event, command trial.Command) error {
	if command.Name != trial.SetSearchSpace {
		return nil
	}
	l.last = nil
	return l.say(Line{Op: OpSpace, Space: command.Value})
}

// ask tells of a trial that does not run with what was suggested for it. A process
// that is rebuilt suggests anew, until it does so differently for the first time.
func (l *lines) ask(event trial.Event, asked trial.Asked) error {
	l.last = nil
	l.mu.Lock()
	l.open[event.Sequence] = &watched{}
	l.mu.Unlock()
	customized := asked.Source == trial.SourceCustomized
	suggested := l.suggest[event.Sequence]
	if suggested.Parameters == nil && !customized && !l.diverged && l.spec.Tuner != nil {
		made, err := l.request(event.Sequence)
		if err != nil {
			return err
		}
		suggested = made
	}
	delete(l.suggest, event.Sequence)
	id := ownID(asked.ParameterID, event.Sequence)
	taken := same(suggested.Parameters, asked.Parameters) && (id == nil || same(suggested.ParameterID, id))
	if taken && !customized {
		return nil
	}
	l.diverged = l.diverged || !customized
	return l.say(Line{Op: OpAsked, Trial: &event.Sequence, Parameters: asked.Parameters, Customized: customized, ParameterID: id})
}

// ownID is a parameter_id that is the algorithm's own, nil where it is the trial's
// number or none.
func ownID(id json.RawMessage, n int) json.RawMessage {
	if text := string(id); text == "null" || text == strconv.Itoa(n) {
		return nil
	}
	return id
}

func same(a, b json.RawMessage) bool {
	first, err := canonical(a)
	second, err2 := canonical(b)
	return err == nil && err2 == nil && bytes.Equal(first, second)
}

func (l *lines) report(event trial.Event, result trial.Intermediate) error {
	w := l.open[event.Sequence]
	if w == nil || result.Value == nil {
		return nil
	}
	l.mu.Lock()
	sequence := w.reported
	w.reported, w.attempt, w.event = w.reported+1, event.Attempt, event.Number
	l.mu.Unlock()
	return l.say(Line{Op: OpIntermediate, Trial: &event.Sequence, Sequence: &sequence, Value: number(result.Value), Metric: result.Metric})
}

func number(value *float64) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage("null") // no finite number: none is fed to algorithms
	}
	return text
}

func (l *lines) end(event trial.Event, ended trial.Ended) error {
	l.mu.Lock()
	known := l.open[event.Sequence] != nil
	delete(l.open, event.Sequence)
	l.mu.Unlock()
	if !known {
		return nil
	}
	if l.last != nil && l.last.Answer != tuners.Try {
		l.last = nil
	}
	return l.say(Line{Op: OpObserve, Trial: &event.Sequence, Status: statuses[ended.State], Value: number(ended.Value), Metric: ended.Metric})
}

// Judges implements Process.
func (l *lines) Judges() bool { return true }

// Stops implements Process.
func (l *lines) Stops() []Stop {
	l.mu.Lock()
	defer l.mu.Unlock()
	stops := l.stops
	l.stops = nil
	return stops
}

// Failure implements Process.
func (l *lines) Failure() error {
	if err := l.failed(); err != nil {
		return l.spec.about(err)
	}
	return nil
}

// Changed implements Process.
func (l *lines) Changed() <-chan struct{} { return l.changed }

// Close implements Process: the end of its input tells the process to end.
func (l *lines) Close() error {
	moment := goodbye
	if l.failed() != nil {
		moment = 0
	}
	if l.to == nil {
		return nil // it never began
	}
	l.to.Close()
	if l.child != nil {
		l.child.end(moment)
	}
	return l.from.Close()
}
