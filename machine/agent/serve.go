package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/trial"
)

// writer writes JSON lines, one at a time.
type writer struct {
	mutex sync.Mutex
	out   io.Writer
}

func (w *writer) write(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	_, err = w.out.Write(append(line, '\n'))
	return err
}

// server answers requests.
type server struct {
	*site
	out   *writer
	watch *watch

	mutex  sync.Mutex
	cancel map[uint64]context.CancelFunc
}

func newServer(site *site, out *writer) *server {
	s := &server{site: site, out: out, cancel: map[uint64]context.CancelFunc{}}
	s.watch = newWatch(site.machine, func(key trial.Key) { out.write(answer{Ended: &key}) })
	site.ended = s.watch.ended
	return s
}

// idleFor is how long an agent waits for a client that says nothing: it may be gone
// without the machine's having noticed.
const idleFor = 20 * time.Minute

// serve returns when the input ends, or nothing comes any more. What is under way
// then is left alone: each verb can be repeated.
func (s *server) serve(input *bufio.Reader) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go s.watch.run(ctx)
	heard, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.listen(ctx, input, heard) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-heard:
		case <-time.After(idleFor):
			return nil
		}
	}
}

// listen begins what is asked for, up to the input's end, or until our directory is
// another one: the next agent tells the client so.
func (s *server) listen(ctx context.Context, input *bufio.Reader, heard chan<- struct{}) error {
	for {
		line, err := input.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			return fmt.Errorf("a line is no request: %w", err)
		}
		select {
		case heard <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if err := s.moved(); err != nil {
			return err
		}
		s.begin(ctx, asked)
	}
}

func (s *server) begin(ctx context.Context, asked request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if asked.Verb == verbAbandon {
		if cancel, known := s.cancel[asked.ID]; known {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.cancel[asked.ID] = cancel
	go s.answer(ctx, asked)
}

func (s *server) answer(ctx context.Context, asked request) {
	body, err := s.do(ctx, asked)
	answered := answer{ID: asked.ID, Fault: faultOf(asked.Verb, err)}
	if err == nil {
		answered.Body, err = json.Marshal(body)
		answered.Fault = faultOf(asked.Verb, err)
	}
	s.mutex.Lock()
	s.cancel[asked.ID]()
	delete(s.cancel, asked.ID)
	s.mutex.Unlock()
	s.out.write(answered) // who cannot be told has gone, and so shall we
}

func (s *server) do(ctx context.Context, asked request) (any, error) {
	switch asked.Verb {
	case verbSubmit:
		return with(asked, func(submission Submission) (any, error) { return s.submit(ctx, submission) })
	case verbPoll:
		return with(asked, func(questions []Question) (any, error) { return s.poll(questions), nil })
	case verbCollect:
		return with(asked, func(from collecting) (any, error) { return s.collect(from) })
	case verbList:
		return with(asked, func(experiment string) (any, error) { return s.machine.List(experiment) })
	case verbCancel:
		return with(asked, func(c cancelling) (any, error) { return nil, s.machine.Cancel(ctx, c.Ref, c.Intent) })
	case verbSupersede:
		return with(asked, func(key trial.Key) (any, error) { return nil, s.machine.Supersede(ctx, key) })
	case verbFacts:
		facts := s.facts()
		facts.Problems = s.machine.Probe()
		return facts, nil
	case verbOffer:
		return with(asked, func(r gpu.Request) (any, error) { return s.machine.Offer(ctx, r) })
	case verbReserve:
		return with(asked, func(r reserving) (any, error) { return nil, s.machine.Reserve(ctx, r.Key, r.Request) })
	case verbGPUs:
		return s.machine.GPUs(ctx)
	case verbCleanUp:
		return with(asked, func(experiment string) (any, error) { return nil, s.cleanUp(experiment) })
	case verbRemove:
		return with(asked, func(experiment string) (any, error) { return nil, s.machine.Remove(experiment) })
	}
	return nil, machine.Errorf(machine.Invalid, asked.Verb, "this agent knows no such verb")
}

// with decodes what a request carries.
func with[T any](asked request, do func(T) (any, error)) (any, error) {
	var body T
	if err := json.Unmarshal(asked.Body, &body); err != nil {
		return nil, machine.Errorf(machine.Invalid, asked.Verb, "the request cannot be read: %w", err)
	}
	return do(body)
}

func (s *server) collect(from collecting) (collected, error) {
	records, next, err := s.machine.Collect(from.Ref, from.After)
	return collected{records, next}, err
}

// chunk bounds the bytes of journals that ride on the answers of one round: over a
// slow line they must arrive while the client waits. What is beyond is asked for by
// itself. It is less than a journal yields at a time if it holds more.
const chunk = 1 << 20

func (s *server) poll(questions []Question) Findings {
	findings := Findings{Facts: s.facts()}
	room := int64(chunk)
	for _, question := range questions {
		finding := Finding{Report: s.machine.Report(question.Ref)}
		// Only after the report: what has ended then reports no more.
		if question.After != nil && room > 0 {
			room -= s.add(&finding, question, room)
		}
		s.watch.saw(question.Ref, finding.Report.Phase)
		findings.Findings = append(findings.Findings, finding)
	}
	return findings
}

// add reads on in a run's journal, and returns how much of the room that took: all,
// where the journal holds more than that, which then rides on no answer.
func (s *server) add(finding *Finding, question Question, room int64) (size int64) {
	records, next, err := s.machine.Collect(question.Ref, *question.After)
	if err != nil {
		return 0 // whoever collects is told
	}
	if size = offset(next) - offset(*question.After); size >= room {
		return room
	}
	finding.Asked, finding.Records, finding.Next = true, records, next
	finding.Whole = true
	return size
}

// offset is the byte of the journal that a cursor of package machine means.
func offset(cursor machine.Cursor) int64 {
	number, _ := strconv.ParseInt(string(cursor), 10, 64) // empty is the beginning
	return number
}
