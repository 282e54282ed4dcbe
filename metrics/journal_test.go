package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func journalOf(t *testing.T, values ...string) string {
	path := filepath.Join(t.TempDir(), "journal")
	journal, err := OpenJournal(path)
	require.NoError(t, err)
	for _, value := range values {
		require.NoError(t, journal.Append([]Record{{Kind: Periodical, Time: time.Unix(1, 0).UTC(), Value: value}}))
	}
	require.NoError(t, journal.Close())
	return path
}

func values(records []Record) []string {
	var values []string
	for _, record := range records {
		values = append(values, fmt.Sprint(record.Number, " ", record.Value))
	}
	return values
}

func TestWhatIsAppendedIsReadInOrderWithNumbersFromOne(t *testing.T) {
	path := journalOf(t, "0.5", `{"default": NaN}`, "<>")
	records, cursor, err := ReadJournal(path, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"1 0.5", `2 {"default": NaN}`, "3 <>"}, values(records))
	require.Equal(t, time.Unix(1, 0).UTC(), records[0].Time)
	none, same, err := ReadJournal(path, cursor)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Equal(t, cursor, same)
}

func TestAJournalThatDoesNotExistYetIsEmpty(t *testing.T) {
	records, cursor, err := ReadJournal(filepath.Join(t.TempDir(), "journal"), 0)
	require.NoError(t, err)
	require.Empty(t, records)
	require.Zero(t, cursor)
}

func TestAJournalCutAnywhereIsReadToItsLastWholeRecordAndGoesOnThere(t *testing.T) {
	whole, err := os.ReadFile(journalOf(t, "1", "2"))
	require.NoError(t, err)
	first, _, err := ReadJournal(journalOf(t, "1"), 0)
	require.NoError(t, err)
	for size := range len(whole) {
		path := filepath.Join(t.TempDir(), "journal")
		require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
		before, cursor, err := ReadJournal(path, 0)
		require.NoError(t, err)
		require.LessOrEqual(t, len(before), len(first))

		journal, err := OpenJournal(path)
		require.NoError(t, err)
		require.Equal(t, int64(len(before)+1), journal.Next())
		require.NoError(t, journal.Append([]Record{{Kind: Final, Value: "again"}}))
		require.NoError(t, journal.Close())
		after, _, err := ReadJournal(path, cursor)
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprint(len(before)+1, " again")}, values(after))
	}
}

func TestABrokenByteEndsTheJournalBeforeIt(t *testing.T) {
	path := journalOf(t, "1", "2")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[len(content)-5] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	records, _, err := ReadJournal(path, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"1 1"}, values(records))
}

func TestOneReadBringsABoundedBatch(t *testing.T) {
	large := strings.Repeat("x", MaxBytes)
	path := journalOf(t, large, large, large, large, large, large, large, large, large, large)
	var numbers []int64
	var cursor int64
	for {
		records, after, err := ReadJournal(path, cursor)
		require.NoError(t, err)
		require.LessOrEqual(t, len(records), 5)
		if len(records) == 0 {
			break
		}
		for _, record := range records {
			numbers = append(numbers, record.Number)
		}
		cursor = after
	}
	require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, numbers)
}

func TestAReaderBesideTheWriterSeesEveryRecordOnceAndWhole(t *testing.T) {
	path := journalOf(t)
	journal, err := OpenJournal(path)
	require.NoError(t, err)
	const count = 2000
	written := make(chan error, 1)
	go func() {
		for i := range count {
			if err := journal.Append([]Record{{Kind: Periodical, Step: int64(i), Value: strings.Repeat("7", i)}}); err != nil {
				written <- err
				return
			}
		}
		written <- journal.Close()
	}()
	var cursor int64
	for read := 0; read < count; {
		records, after, err := ReadJournal(path, cursor)
		require.NoError(t, err)
		for _, record := range records {
			require.Equal(t, int64(read+1), record.Number)
			require.Len(t, record.Value, read)
			read++
		}
		cursor = after
	}
	require.NoError(t, <-written)
}

func TestANewerJournalIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, os.WriteFile(path, []byte("perennial journal 2\nsomething else"), 0o600))
	_, _, err := ReadJournal(path, 0)
	require.ErrorIs(t, err, ErrNewerJournal)
	_, err = OpenJournal(path)
	require.ErrorIs(t, err, ErrNewerJournal)
}

func TestAFileThatIsNoJournalIsRefusedAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, os.WriteFile(path, []byte("somebody's precious notes"), 0o600))
	_, err := OpenJournal(path)
	require.ErrorIs(t, err, ErrNoJournal)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "somebody's precious notes", string(content))
}

func FuzzAnyFileIsReadWithoutHarm(f *testing.F) {
	f.Add([]byte(journalHead))
	f.Add([]byte(journalHead + "\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, cursor, _ := ReadJournal(path, 0)
		require.LessOrEqual(t, cursor, int64(len(content)))
	})
}
