package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

const (
	// DefaultMessageFile is where Kubernetes looks for a termination message.
	DefaultMessageFile = "/dev/termination-log"
	// messageBytes is what Kubernetes keeps of it.
	messageBytes  = 4096
	messageFormat = 1
	// mostLast is more records than fit.
	mostLast = messageBytes / 80
)

// ErrNoMessage is returned by ParseMessage for what no runner wrote.
var ErrNoMessage = errors.New("this is no termination message of a runner")

// Message is the termination message, rewritten while the command runs. One without
// Exit was left by a runner that was killed.
type Message struct {
	Format  int                `json:"format"`
	Run     string             `json:"run"`            // trial.Key.String
	Records int64              `json:"records"`        // how many the journal has
	Exit    *rundir.ExitRecord `json:"exit,omitempty"` // how the command ended
	// Last are records as far as they fit: the first FINAL, then the newest.
	Last []metrics.Record `json:"last,omitempty"`
}

// ParseMessage reads a termination message.
func ParseMessage(text []byte) (Message, error) {
	var message Message
	// A longer one that stood there before may shine through behind it.
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&message); err != nil || message.Format == 0 || message.Run == "" {
		return Message{}, ErrNoMessage
	}
	if message.Format > messageFormat {
		return Message{}, fmt.Errorf("the termination message has format %d, this version reads up to %d: use a newer starter", message.Format, messageFormat)
	}
	return message, nil
}

// Teller keeps an attempt's termination message.
type Teller struct {
	message Message
	final   *metrics.Record
	newest  []metrics.Record // in their order
}

// NewTeller returns one for an attempt that has reported nothing yet.
func NewTeller(key trial.Key) *Teller {
	return &Teller{message: Message{Format: messageFormat, Run: key.String()}}
}

// Add takes records of the journal, in their order, each once however often it
// comes.
func (t *Teller) Add(records []metrics.Record) {
	for _, record := range records {
		if record.Number <= t.message.Records {
			continue
		}
		t.message.Records = record.Number
		if record.Kind == metrics.Final && t.final == nil {
			t.final = &record
			continue
		}
		t.newest = append(t.newest, record)
	}
	t.newest = t.newest[max(0, len(t.newest)-mostLast):]
}

// Write writes the message into a file, in place since the file is somebody else's.
func (t *Teller) Write(path string, exit *rundir.ExitRecord) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	text := t.text(exit)
	_, err = file.WriteAt(text, 0)
	if err == nil {
		_ = file.Truncate(int64(len(text))) // a pipe or a device has no length
	}
	return errors.Join(err, file.Close())
}

// text is the message with as many records as there is room for.
func (t *Teller) text(exit *rundir.ExitRecord) []byte {
	message := t.message
	message.Exit = short(exit)
	text := encoded(message)
	for _, record := range t.byWorth() {
		longer := message
		longer.Last = append(slices.Clone(message.Last), record)
		if grown := encoded(longer); len(grown) <= messageBytes {
			message, text = longer, grown
		}
	}
	return text
}

// byWorth is the FINAL, then the newest records first.
func (t *Teller) byWorth() (records []metrics.Record) {
	if t.final != nil {
		records = append(records, *t.final)
	}
	newest := slices.Clone(t.newest)
	slices.Reverse(newest)
	return append(records, newest...)
}

func encoded(message Message) []byte {
	text, _ := json.Marshal(message) // plain data cannot fail
	return append(text, '\n')
}

// longestExitText is in bytes, each of which JSON may write as six.
const longestExitText = 512

// short is an exit record whose words leave room for records.
func short(exit *rundir.ExitRecord) *rundir.ExitRecord {
	if exit == nil || len(exit.Exit.Text) <= longestExitText {
		return exit
	}
	cut := *exit
	cut.Exit.Text = cut.Exit.Text[:longestExitText]
	return &cut
}
