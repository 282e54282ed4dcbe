package runner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perennial-ml/perennial/testsuite/machine"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/perennial-ml/perennial/metrics"
	"github.com/perennial-ml/perennial/runner/rundir"
	"github.com/perennial-ml/perennial/trial"
)

func testCollector(t *testing.T, directory string) (*collector, rundir.Run) {
	run := rundir.Run{Directory: directory}
	c, err := newCollector(run, rundir.Spec{Directories: trial.Directories{System: directory}}, openLog(run))
	require.NoError(t, err)
	return c, run
}

func journalled(t *testing.T, run rundir.Run) []string {
	records, _, err := metrics.ReadJournal(run.Path(rundir.JournalFile), 0)
	require.NoError(t, err)
	var values []string
	for _, record := range records {
		values = append(values, record.Value)
	}
	return values
}

// clumsy panics on its first piece.
type clumsy struct{ metrics.Lines }

func (c *clumsy) Feed(data []byte) []metrics.Record {
	if bytes.Contains(data, []byte("poison")) {
		panic("a fault in the parser")
	}
	return c.Lines.Feed(data)
}

func TestAParserThatPanicsCostsOnlyThePieceItReads(t *testing.T) {
	c, run := testCollector(t, t.TempDir())
	c.stdout = newSource(run.Path(rundir.Stdout), func() parser { return &clumsy{} })
	require.NoError(t, os.WriteFile(run.Path(rundir.Stdout), []byte("poison\n"), 0o600))
	c.step()
	file, err := appendTo(run.Path(rundir.Stdout))
	require.NoError(t, err)
	_, err = file.WriteString("perennial: final 1\n")
	require.NoError(t, err)
	go c.collect()
	require.True(t, c.finish())
	require.Equal(t, []string{"1"}, journalled(t, run))
	said, err := os.ReadFile(run.Path(rundir.RunnerLog))
	require.NoError(t, err)
	require.Contains(t, string(said), "a fault in the parser")
}

func TestATruncatedFileThatHasGrownBeyondTheOldPlaceIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	tail, buffer := tail{path: path}, make([]byte, 100)
	data, _, err := tail.next(buffer)
	require.NoError(t, err)
	require.Empty(t, data)
	for _, content := range []string{"one", "another, and longer", "short", "replaced by what is longer"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		data, _, err := tail.next(buffer)
		require.NoError(t, err)
		require.Equal(t, content, string(data))
	}
	require.NoError(t, os.WriteFile(path+".new", []byte("replaced by what is longer"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	data, anew, err := tail.next(buffer)
	require.NoError(t, err)
	require.True(t, anew)
	require.Equal(t, "replaced by what is longer", string(data))
}

func TestTheMiddleOfALogIsGivenBackWhileItGrowsAndOnlyWhatWasRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	content := []byte(strings.Repeat("0123456789abcde\n", 1<<16))
	require.NoError(t, os.WriteFile(path, content, 0o600))
	log := logFile{path: path, limit: 128 << 10}
	require.NoError(t, log.punch())
	require.Zero(t, log.hole, "what nobody read yet is gone")
	log.read.Store(int64(len(content)))
	require.NoError(t, log.punch())
	require.Zero(t, log.hole, "what nobody was shown yet is gone")
	log.shown.Store(int64(len(content)))
	err := log.punch()
	if err == unix.EOPNOTSUPP {
		t.Skip("this file system makes no holes")
	}
	require.NoError(t, err)
	var info syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &info))
	require.Equal(t, int64(len(content)), info.Size)
	require.LessOrEqual(t, info.Blocks*512, int64(256<<10))
	require.NoError(t, log.compact())
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	note := fmt.Sprintf("\n[perennial: %d bytes left out]\n", len(content)-128<<10)
	require.Equal(t, string(content[:64<<10])+note+string(content[len(content)-64<<10:]), string(kept))
}

func TestAMetricIsReadOnceWhileTheLogAroundItIsGivenBack(t *testing.T) {
	c, run := testCollector(t, t.TempDir())
	c.logs.stdout.limit = 8 << 10
	file, err := appendTo(run.Path(rundir.Stdout))
	require.NoError(t, err)
	const pieces = 8
	for i := range pieces {
		line := fmt.Sprintf("perennial: intermediate %d\n", i)
		_, err := file.WriteString(line + strings.Repeat("x", readBytes-len(line)-1) + "\n")
		require.NoError(t, err)
	}
	for range pieces { // the reader is behind, so the hole reaches up to it
		c.step()
		if err := c.logs.stdout.punch(); err == unix.EOPNOTSUPP {
			t.Skip("this file system makes no holes")
		}
	}
	go c.collect()
	c.finish()
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, journalled(t, run))
}

func TestAFullDiskDelaysMetricsAndLosesNone(t *testing.T) {
	small := machine.SmallDisk(t, "4m")
	c, run := testCollector(t, small)
	filler, err := os.Create(filepath.Join(small, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)

	const size, count = 100_000, 30
	var want []string
	for i := range count {
		want = append(want, fmt.Sprintf("%d%s", 1+i%9, strings.Repeat("0", size)))
	}
	// What the trial writes lies on another disk: it is our own that is full.
	elsewhere := filepath.Join(t.TempDir(), "stdout")
	lines := "perennial: intermediate " + strings.Join(want, "\nperennial: intermediate ") + "\n"
	require.NoError(t, os.WriteFile(elsewhere, []byte(lines), 0o600))
	c.stdout.tail = tail{path: elsewhere}
	for c.step() > 0 {
	}
	promised := journalled(t, run)
	require.Greater(t, len(promised)*size, 500_000, "the reserved room was not there")
	require.Less(t, len(promised), count)
	go c.collect()
	require.NoError(t, filler.Truncate(0))
	c.finish()
	require.Equal(t, want, journalled(t, run))
}

func TestWhatIsPrintedBehindAFullJournalIsReadOnceTheDiskHasRoomAgain(t *testing.T) {
	c, run := testCollector(t, t.TempDir())
	c.took([]metrics.Record{{Kind: metrics.Periodical, Value: strings.Repeat("7", waitingBytes)}})
	require.NoError(t, os.WriteFile(run.Path(rundir.Stdout), []byte("perennial: final 1\n"), 0o600))
	close(c.ended)
	c.collect()
	_, cursor, err := metrics.ReadJournal(run.Path(rundir.JournalFile), 0) // what had waited
	require.NoError(t, err)
	records, _, err := metrics.ReadJournal(run.Path(rundir.JournalFile), cursor)
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, "1", records[0].Value)
}
