package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/perennial-ml/perennial/gpu"
	"github.com/perennial-ml/perennial/machine"
	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/trial"
)

// ErrGone is wrapped by every error that means that the agent cannot be heard any
// more. It says nothing about any run.
var ErrGone = errors.New("the connection to the agent is gone")

// noiseLimit bounds what a login shell may print before the agent's first line.
const noiseLimit = 64 << 10

// Greet reads what an agent says first and answers. It returns the agent's output
// from there on. The error tells what was said instead of a greeting.
func Greet(out io.Reader, in io.Writer, hello Hello) (*bufio.Reader, Welcome, error) {
	var welcome Welcome
	hello.Format = Format
	line, err := json.Marshal(hello)
	if err != nil {
		return nil, welcome, err
	}
	if _, err := in.Write(append(line, '\n')); err != nil {
		return nil, welcome, fmt.Errorf("%w: %w", ErrGone, err)
	}
	output := bufio.NewReaderSize(out, 256<<10)
	if err := skipNoise(output); err != nil {
		return nil, welcome, err
	}
	if err := readLine(output, &welcome); err != nil {
		return nil, welcome, err
	}
	return output, welcome, welcome.Fault.err()
}

// skipNoise reads up to the greeting.
func skipNoise(output *bufio.Reader) error {
	var noise bytes.Buffer
	for noise.Len() < noiseLimit {
		line, err := output.ReadString('\n')
		if strings.TrimRight(line, "\r\n") == Greeting {
			return nil
		}
		noise.WriteString(line)
		if err != nil {
			break
		}
	}
	said := strings.TrimSpace(noise.String())
	if said == "" {
		return fmt.Errorf("%w before it said anything", ErrGone)
	}
	return fmt.Errorf("%w: instead of greeting it said: %s", ErrGone, said[:min(len(said), 500)])
}

func readLine(output *bufio.Reader, into any) error {
	line, err := output.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("%w: it said what is no answer: %w", ErrGone, err)
	}
	return nil
}

// ReadFault reads the one answer to an Unpack or, before the stream, to Logs.
func ReadFault(output *bufio.Reader) error {
	var answered answer
	if err := readLine(output, &answered); err != nil {
		return err
	}
	return answered.Fault.err()
}

// Client is the near end of an agent that serves. It is safe for concurrent use.
type Client struct {
	requests *writer
	ended    func(trial.Key)

	mutex   sync.Mutex
	next    uint64
	waiting map[uint64]chan answer
	heard   time.Time
	err     error
	done    chan struct{}
}

// NewClient returns the client of an agent that was greeted with Serve, whose
// output is out and input in. Ended is called, in order, for runs that may have
// just ended; it must not block. When out ends the client is done for good.
func NewClient(out *bufio.Reader, in io.Writer, ended func(trial.Key)) *Client {
	c := &Client{
		requests: &writer{out: in}, ended: ended, waiting: map[uint64]chan answer{}, done: make(chan struct{}),
	}
	go c.listen(out)
	return c
}

// Done is closed when the agent cannot be heard any more.
func (c *Client) Done() <-chan struct{} { return c.done }

// Gone tells whether Done is closed.
func (c *Client) Gone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Heard is when the agent last answered anything, also what nobody waited for any
// more; zero where it never did.
func (c *Client) Heard() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.heard
}

func (c *Client) listen(out *bufio.Reader) {
	for {
		var answered answer
		if err := readLine(out, &answered); err != nil {
			c.end(err)
			return
		}
		if answered.Ended != nil {
			c.ended(*answered.Ended)
			continue
		}
		c.mutex.Lock()
		c.heard = time.Now()
		waiting, known := c.waiting[answered.ID]
		delete(c.waiting, answered.ID)
		c.mutex.Unlock()
		if known {
			waiting <- answered
		}
	}
}

func (c *Client) end(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.err = err
	close(c.done)
}

// call asks and waits for the answer. That ctx ends is told to the agent.
func (c *Client) call(ctx context.Context, verb string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	id, waiting := c.expect()
	defer c.forget(id)
	if err := c.send(ctx, request{id, verb, raw}); err != nil {
		return err
	}
	select {
	case answered := <-waiting:
		if err := answered.Fault.err(); err != nil || into == nil {
			return err
		}
		return json.Unmarshal(answered.Body, into)
	case <-c.done:
		return c.err
	case <-ctx.Done():
		go c.requests.write(request{ID: id, Verb: verbAbandon})
		return ctx.Err()
	}
}

// send writes a request. A connection that is stuck must not hold up who asks.
func (c *Client) send(ctx context.Context, asked request) error {
	sent := make(chan error, 1)
	go func() { sent <- c.requests.write(asked) }()
	select {
	case err := <-sent:
		if err != nil {
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
		return nil
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) expect() (uint64, chan answer) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.next++
	waiting := make(chan answer, 1)
	c.waiting[c.next] = waiting
	return c.next, waiting
}

func (c *Client) forget(id uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.waiting, id)
}

// Submit has a run started, as machine.Machine.Submit. It returns ErrNoCode where the
// code must be brought first.
func (c *Client) Submit(ctx context.Context, submission Submission) (machine.Ref, error) {
	var ref machine.Ref
	err := c.call(ctx, verbSubmit, submission, &ref)
	return ref, err
}

// Poll asks about any number of runs in one round trip.
func (c *Client) Poll(ctx context.Context, questions []Question) (Findings, error) {
	var findings Findings
	err := c.call(ctx, verbPoll, questions, &findings)
	if err == nil && len(findings.Findings) != len(questions) {
		err = fmt.Errorf("%d answers to %d questions", len(findings.Findings), len(questions))
	}
	return findings, err
}

// Collect is machine.Machine.Collect.
func (c *Client) Collect(ctx context.Context, ref machine.Ref, after machine.Cursor) ([]metrics.Record, machine.Cursor, error) {
	var found collected
	err := c.call(ctx, verbCollect, collecting{ref, after}, &found)
	return found.Records, found.Next, err
}

// List is machine.Machine.List.
func (c *Client) List(ctx context.Context, experiment string) ([]machine.Ref, error) {
	var refs []machine.Ref
	err := c.call(ctx, verbList, experiment, &refs)
	return refs, err
}

// Cancel is machine.Machine.Cancel.
func (c *Client) Cancel(ctx context.Context, ref machine.Ref, intent trial.Intent) error {
	return c.call(ctx, verbCancel, cancelling{ref, intent}, nil)
}

// Supersede is machine.Machine.Supersede.
func (c *Client) Supersede(ctx context.Context, key trial.Key) error {
	return c.call(ctx, verbSupersede, key, nil)
}

// Facts tells what the machine is like, with its problems.
func (c *Client) Facts(ctx context.Context) (Facts, error) {
	var facts Facts
	err := c.call(ctx, verbFacts, nil, &facts)
	return facts, err
}

// Offer is machine.Machine.Offer.
func (c *Client) Offer(ctx context.Context, request gpu.Request) (machine.Offer, error) {
	var offer machine.Offer
	err := c.call(ctx, verbOffer, request, &offer)
	return offer, err
}

// Reserve is machine.Machine.Reserve.
func (c *Client) Reserve(ctx context.Context, key trial.Key, request gpu.Request) error {
	return c.call(ctx, verbReserve, reserving{key, request}, nil)
}

// GPUs is machine.Machine.GPUs.
func (c *Client) GPUs(ctx context.Context) (gpu.Host, error) {
	var host gpu.Host
	err := c.call(ctx, verbGPUs, nil, &host)
	return host, err
}

// Remove is machine.Machine.Remove.
func (c *Client) Remove(ctx context.Context, experiment string) error {
	return c.call(ctx, verbRemove, experiment, nil)
}

// CleanUp removes code that only this experiment used.
func (c *Client) CleanUp(ctx context.Context, experiment string) error {
	return c.call(ctx, verbCleanUp, experiment, nil)
}
