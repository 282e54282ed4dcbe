package uaitrain_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/uailab"
	"github.com/perennial-ml/perennial/trial"
)

// inBucket are the keys of a section on UFile.
func inBucket(service *uailab.Service, more map[string]any) map[string]any {
	keys := map[string]any{"ufsPath": "", "localStorageMountPoint": "", "ufilePath": uailab.Bucket + "/team", "ufileEndpoint": service.Address}
	for name, value := range more {
		keys[name] = value
	}
	return keys
}

func openBucket(t *testing.T, more map[string]any) *opened {
	o := open(t, nil)
	o.section = options(t, o.Service, inBucket(o.Service, more))
	return o
}

func TestConformanceOnUFile(t *testing.T) {
	platformtest.Run(t, func(t *testing.T) platformtest.Subject {
		service, state := uailab.New(t), t.TempDir()
		section := options(t, service, inBucket(service, nil))
		require.NoError(t, kind(state).Check(section))
		return platformtest.Subject{
			Kind:    func(*testing.T) platforms.Kind { return kind(state) },
			Options: func() json.RawMessage { return section },
			Job:     platformtest.ShellJob,
		}
	})
}

// read is what a run printed.
func (o *opened) read(handle platforms.Handle, stream string) string {
	return o.readOf(handle, "", stream)
}

// readOf is what one of the nodes of a run printed.
func (o *opened) readOf(handle platforms.Handle, node, stream string) string {
	reader, err := o.Platform.(platforms.WithLogs).Logs(o.t.Context(), handle, platforms.Log{Stream: stream, Replica: node})
	require.NoError(o.t, err)
	defer reader.Close()
	text, err := io.ReadAll(reader)
	require.NoError(o.t, err)
	return string(text)
}

func (o *opened) prepared(code string) platforms.Workspace {
	workspace, err := o.Prepare(o.t.Context(), platforms.Bundle{CodeDirectory: code})
	require.NoError(o.t, err)
	return workspace
}

func TestCodeGoesIntoTheBucketOnceAndOutputComesBack(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	code := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(code, "here.txt"), []byte("code is here\n"), 0o644))
	job := o.job(1, `cat here.txt; mkdir -p "$PERENNIAL_OUTPUT_DIR/model"; echo weights >"$PERENNIAL_OUTPUT_DIR/model/a b.bin"; echo "perennial: final 0.5"`)
	job.Workspace = o.prepared(code)
	puts := o.Calls("UFilePUT")
	require.Equal(t, 3, puts, "the runner, what starts it and the code")
	require.Equal(t, job.Workspace, o.prepared(code))
	require.Equal(t, puts, o.Calls("UFilePUT"))
	handle, err := o.Submit(t.Context(), job)
	require.NoError(t, err)
	report := o.await(handle, succeeded)
	content, err := os.ReadFile(filepath.Join(report.Output, "model", "a b.bin"))
	require.NoError(t, err)
	require.Equal(t, "weights\n", string(content))
	require.FileExists(t, filepath.Join(report.Output, "stdout"), "where commands look for it")
	require.Equal(t, "code is here\n", strings.SplitAfter(o.read(handle, "stdout"), "\n")[0])
	require.Equal(t, []string{"FINAL 0.5"}, o.reported(handle))
	require.Eventually(t, func() bool { return len(o.Files()) == 3 }, time.Minute, 20*time.Millisecond, "output goes from the bucket once it is here: %v", o.Files())
	require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
	require.Empty(t, o.Files())
	again, err := o.Prepare(t.Context(), platforms.Bundle{CodeDirectory: "/no/such/directory", Again: &job.Workspace})
	require.NoError(t, err)
	require.Equal(t, job.Workspace, again)
	require.Len(t, o.Files(), 3)
}

func TestMetricsComeWhileAJobOnUFileRunsAndALogThatLosesSomeIsMadeGood(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	o.LogLines = 3
	gate := filepath.Join(t.TempDir(), "gate")
	handle := o.submit(1, `echo "perennial: intermediate 0.25"
while [ ! -e '`+gate+`' ]; do sleep 0.1; done
for i in 1 2 3 4 5 6 7 8 9; do echo "perennial: intermediate $i"; done
seq 100; echo "perennial: final 0.5"`)
	var first []string
	o.await(handle, func(report platforms.Report) bool {
		if report.Journal != nil && len(report.Journal.Records) > 0 {
			first = append(first, report.Journal.Records[0].Value)
		}
		return len(first) > 0
	})
	require.Equal(t, "0.25", first[0], "while it runs")
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
	o.await(handle, succeeded)
	require.Equal(t, []string{"PERIODICAL 0.25", "PERIODICAL 1", "PERIODICAL 2", "PERIODICAL 3", "PERIODICAL 4", "PERIODICAL 5", "PERIODICAL 6", "PERIODICAL 7",
		"PERIODICAL 8", "PERIODICAL 9", "FINAL 0.5"}, o.reported(handle))
}

func TestDataOfOnesOwnIsFoundBesideTheCode(t *testing.T) {
	t.Parallel()
	o := openBucket(t, map[string]any{"inputPath": uailab.Bucket + "/data"})
	data := filepath.Join(o.Objects, "data", "set")
	require.NoError(t, os.MkdirAll(data, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(data, "0.csv"), []byte("1,2\n"), 0o644))
	o.await(o.submit(1, "test \"$(cat /data/data/set/0.csv)\" = 1,2"), succeeded)
	require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
	require.Equal(t, []string{"data/set/0.csv"}, o.Files(), "their data is theirs")
}

func TestOutputThatCannotBeFetchedIsFetchedLater(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	handle := o.submit(1, "true")
	o.Have(uailab.Fault{Of: "UFileGET", Status: 502})
	report := o.await(handle, func(report platforms.Report) bool { return report.Reason.Code == "fetching" })
	require.Equal(t, platforms.Unreachable, report.Phase)
	require.Contains(t, report.Reason.Text, "502")
	o.await(handle, succeeded)
}

func TestAJobOnUFileIsStoppedOnBehalfOfWhomeverWantsIt(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	handle := o.submit(1, "exec sleep 600")
	o.await(handle, func(report platforms.Report) bool { return report.Phase == platforms.Running })
	require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseEarlyStop}))
	report := o.await(handle, func(report platforms.Report) bool { return report.Phase.Definite() })
	require.Equal(t, platforms.Exited, report.Phase)
	require.Equal(t, trial.CauseEarlyStop, report.Intent.Cause)
}

func TestABucketsKeysAreRefusedAndRenewed(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	o.Renew("another-private-key")
	_, err := o.Prepare(t.Context(), platforms.Bundle{CodeDirectory: t.TempDir()})
	require.Equal(t, platforms.Denied, platforms.CodeOf(err))
	require.ErrorContains(t, err, "renew publicKey and privateKey")
	o.section = options(t, o.Service, inBucket(o.Service, map[string]any{"privateKey": "another-private-key"}))
	o.prepared(t.TempDir())
}

func TestASectionOnUFileThatCannotWorkIsRefusedByField(t *testing.T) {
	t.Parallel()
	service := uailab.New(t)
	for _, of := range []struct {
		field string
		more  map[string]any
	}{
		{"ufilePath", map[string]any{"ufilePath": "team"}},
		{"ufilePath", map[string]any{"ufsPath": uailab.UFS, "localStorageMountPoint": service.Here}},
		{"ufilePath", map[string]any{"nodeCount": 2, "framework": "mxnet"}},
		{"ufileEndpoint", map[string]any{"ufileEndpoint": "standin"}},
		{"inputPath", map[string]any{"inputPath": "other.cn-bj.ufileos.com/data"}},
		{"ufsPath", map[string]any{"ufilePath": ""}},
	} {
		var faults platforms.OptionFaults
		require.ErrorAs(t, kind(t.TempDir()).Check(options(t, service, inBucket(service, of.more))), &faults, of.field)
		require.Len(t, faults, 1)
		require.Equal(t, of.field, faults[0].Field)
	}
}
