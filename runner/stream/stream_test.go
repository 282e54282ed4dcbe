package stream

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

var key = trial.Key{Experiment: "k3v9x2ab", Sequence: 7, Attempt: 2}

func record(number int64, value string) metrics.Record {
	return metrics.Record{Number: number, Time: time.Unix(1700000000+number, 0).UTC(), Kind: metrics.Periodical, Step: number - 1, Value: value}
}

func linesOf(t require.TestingT, records ...metrics.Record) (text []byte) {
	for _, record := range records {
		var err error
		text, err = AppendRecord(text, key, record)
		require.NoError(t, err)
	}
	return text
}

func TestEveryRecordIsReadOnceHoweverOftenAndWhereverReadingBegins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []metrics.Record
		var log []byte
		for number := range rapid.Int64Range(1, 8).Draw(t, "records") {
			value := strings.Repeat(rapid.StringMatching(`[a-zé"<\\]{1,3}`).Draw(t, "value"), rapid.IntRange(1, 9000).Draw(t, "times"))
			records = append(records, record(number+1, value))
			log = append(log, rapid.SampledFrom([]string{"", "chatter\n", "2026-11-22T17:00:00Z stdout F ", strings.Repeat("x", 40_000) + "\n", mark + "1 1/1 nonsense\n"}).Draw(t, "between")...)
			log = append(log, linesOf(t, records[number])...)
		}
		reader := NewReader(key, 0)
		var found []metrics.Record
		for range rapid.IntRange(0, 4).Draw(t, "interruptions") {
			from := rapid.IntRange(0, len(log)).Draw(t, "from")
			to := rapid.IntRange(from, len(log)).Draw(t, "to")
			found = append(found, reader.Feed(log[from:to])...)
			reader.Reconnect()
		}
		for rest := log; len(rest) > 0; {
			size := rapid.IntRange(1, len(rest)).Draw(t, "size")
			found = append(found, reader.Feed(rest[:size])...)
			rest = rest[size:]
		}
		require.Equal(t, records, found)
		_, _, missing := reader.Gap()
		require.False(t, missing)
	})
}

func TestReadingGoesOnFromWhatIsKnown(t *testing.T) {
	log := linesOf(t, record(1, "1"), record(2, "2"), record(3, "3"))
	reader := NewReader(key, 2)
	require.Equal(t, []metrics.Record{record(3, "3")}, reader.Feed(log))
	require.Equal(t, int64(3), reader.After())
}

func TestAGapIsSeenAndClosedOrGivenUp(t *testing.T) {
	reader := NewReader(key, 0)
	require.Empty(t, reader.Feed(linesOf(t, record(3, "3"), record(5, "5"))))
	from, to, missing := reader.Gap()
	require.True(t, missing)
	require.Equal(t, []int64{1, 2}, []int64{from, to})
	require.Equal(t, []metrics.Record{record(1, "1")}, reader.Feed(linesOf(t, record(1, "1"))))
	require.Equal(t, []metrics.Record{record(3, "3")}, reader.Skip())
	from, to, missing = reader.Gap()
	require.True(t, missing)
	require.Equal(t, []int64{4, 4}, []int64{from, to})
	require.Len(t, reader.Feed(linesOf(t, record(4, "4"))), 2)

	end, err := AppendEnd(nil, key, End{Records: 6, Exit: &rundir.ExitRecord{}})
	require.NoError(t, err)
	require.Empty(t, reader.Feed(end))
	require.False(t, reader.Whole())
	from, to, missing = reader.Gap()
	require.True(t, missing, "the end tells what is missing before it")
	require.Equal(t, []int64{6, 6}, []int64{from, to})
	reader.Skip()
	require.True(t, reader.Whole())
}

func TestAnotherAttemptsAndDamagedLinesAreNotTaken(t *testing.T) {
	other := key
	other.Attempt = 1
	text, err := AppendRecord(nil, other, record(1, "1"))
	require.NoError(t, err)
	reader := NewReader(key, 0)
	require.Empty(t, reader.Feed(text))
	damaged := strings.Replace(string(linesOf(t, record(1, "0.5"))), "0.5", "0.6", 1)
	require.Empty(t, reader.Feed([]byte(damaged)))
	require.Empty(t, reader.Told(Message{Run: other.String(), Last: []metrics.Record{record(1, "1")}}))
}

func TestTheMessageFitsAndHasTheFinalFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	teller := NewTeller(key)
	final := metrics.Record{Number: 1, Kind: metrics.Final, Value: "0.75"}
	teller.Add([]metrics.Record{final})
	for number := int64(2); number < 500; number++ {
		teller.Add([]metrics.Record{record(number, fmt.Sprint(number))})
	}
	exit := &rundir.ExitRecord{Exit: trial.Exit{Code: 3, Text: strings.Repeat("<", 5000)}}
	for _, e := range []*rundir.ExitRecord{exit, nil} {
		require.NoError(t, teller.Write(path, e))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), messageBytes)
		message, err := ParseMessage(text)
		require.NoError(t, err)
		require.Equal(t, int64(499), message.Records)
		require.Equal(t, final, message.Last[0])
		if e == nil {
			require.Greater(t, len(message.Last), 20)
			require.Equal(t, int64(499), message.Last[1].Number, "then the newest")
		}
	}
	_, err := ParseMessage([]byte("OOMKilled"))
	require.ErrorIs(t, err, ErrNoMessage)
	_, err = ParseMessage([]byte(`{"format":99,"run":"x"}`))
	require.ErrorContains(t, err, "newer starter")
}

func TestAValueTooLargeForTheMessageLeavesRoomForOthers(t *testing.T) {
	teller := NewTeller(key)
	teller.Add([]metrics.Record{{Number: 1, Kind: metrics.Final, Value: strings.Repeat("9", 5000)}, record(2, "2")})
	message, err := ParseMessage(teller.text(nil))
	require.NoError(t, err)
	require.Equal(t, []metrics.Record{record(2, "2")}, message.Last)
	reader := NewReader(key, 0)
	require.Empty(t, reader.Told(message))
	from, to, missing := reader.Gap()
	require.True(t, missing)
	require.Equal(t, []int64{1, 1}, []int64{from, to})
}
