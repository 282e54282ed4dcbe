package uaitrain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/platforms"
	"github.com/perennial-ml/perennial/testsuite/platformtest"
	"github.com/perennial-ml/perennial/testsuite/servicelab"
	"github.com/perennial-ml/perennial/testsuite/uailab"
	"github.com/perennial-ml/perennial/trial"
)

// inBucket are the keys of a section on UFile.
func inBucket(service *uailab.Service, more map[string]any) map[string]any {
	return platformtest.Keys(map[string]any{"ufsPath": "", "localStorageMountPoint": "", "ufilePath": uailab.Bucket + "/team", "ufileEndpoint": service.Address}, more)
}

func openBucket(t *testing.T, more map[string]any) opened {
	o := open(t, nil)
	for key, value := range inBucket(o.Service, more) {
		o.Set(key, value)
	}
	return o
}

func TestConformanceOnUFile(t *testing.T) {
	platformtest.RunSection(t, kind, func(t *testing.T) map[string]any {
		service := uailab.New(t)
		return keys(service, inBucket(service, nil))
	})
}

func TestCodeGoesIntoTheBucketOnceAndOutputComesBack(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	code := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(code, "here.txt"), []byte("code is here\n"), 0o644))
	job := o.Job(1, `cat here.txt; mkdir -p "$PERENNIAL_OUTPUT_DIR/model"; echo weights >"$PERENNIAL_OUTPUT_DIR/model/a b.bin"; echo "perennial: final 0.5"`)
	job.Workspace = o.Prepared(code)
	puts := o.Calls("UFilePUT")
	require.Equal(t, 3, puts, "the runner, what starts it and the code")
	require.Equal(t, job.Workspace, o.Prepared(code))
	require.Equal(t, puts, o.Calls("UFilePUT"))
	handle, err := o.Submit(t.Context(), job)
	require.NoError(t, err)
	report := o.Await(handle, platformtest.Succeeded)
	content, err := os.ReadFile(filepath.Join(report.Output, "model", "a b.bin"))
	require.NoError(t, err)
	require.Equal(t, "weights\n", string(content))
	require.FileExists(t, filepath.Join(report.Output, "stdout"), "where commands look for it")
	require.Equal(t, "code is here\n", strings.SplitAfter(o.Read(handle, platforms.Log{Stream: "stdout"}), "\n")[0])
	require.Equal(t, []string{"FINAL 0.5"}, o.Reported(handle))
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
	handle := o.Start(1, `echo "perennial: intermediate 0.25"
while [ ! -e '`+gate+`' ]; do sleep 0.1; done
for i in 1 2 3 4 5 6 7 8 9; do echo "perennial: intermediate $i"; done
seq 100; echo "perennial: final 0.5"`)
	var first []string
	o.Await(handle, func(report platforms.Report) bool {
		if report.Journal != nil && len(report.Journal.Records) > 0 {
			first = append(first, report.Journal.Records[0].Value)
		}
		return len(first) > 0
	})
	require.Equal(t, "0.25", first[0], "while it runs")
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
	o.Await(handle, platformtest.Succeeded)
	require.Equal(t, []string{"PERIODICAL 0.25", "PERIODICAL 1", "PERIODICAL 2", "PERIODICAL 3", "PERIODICAL 4", "PERIODICAL 5", "PERIODICAL 6", "PERIODICAL 7",
		"PERIODICAL 8", "PERIODICAL 9", "FINAL 0.5"}, o.Reported(handle))
}

func TestDataOfOnesOwnIsFoundBesideTheCode(t *testing.T) {
	t.Parallel()
	o := openBucket(t, map[string]any{"inputPath": uailab.Bucket + "/data"})
	data := filepath.Join(o.Objects, "data", "set")
	require.NoError(t, os.MkdirAll(data, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(data, "0.csv"), []byte("1,2\n"), 0o644))
	o.Await(o.Start(1, "test \"$(cat /data/data/set/0.csv)\" = 1,2"), platformtest.Succeeded)
	require.NoError(t, o.Platform.(platforms.WithCleanup).CleanUp(t.Context()))
	require.Equal(t, []string{"data/set/0.csv"}, o.Files(), "their data is theirs")
}

func TestOutputThatCannotBeFetchedIsFetchedLater(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	handle := o.Start(1, "true")
	o.Have(servicelab.Fault{Of: "UFileGET", Status: 502})
	report := o.Await(handle, func(report platforms.Report) bool { return report.Reason.Code == "fetching" })
	require.Equal(t, platforms.Unreachable, report.Phase)
	require.Contains(t, report.Reason.Text, "502")
	o.Await(handle, platformtest.Succeeded)
}

func TestAJobOnUFileIsStoppedOnBehalfOfWhomeverWantsIt(t *testing.T) {
	t.Parallel()
	o := openBucket(t, nil)
	handle := o.Start(1, "exec sleep 600")
	o.Await(handle, platformtest.Running)
	require.NoError(t, o.Cancel(t.Context(), handle, trial.Intent{Cause: trial.CauseEarlyStop}))
	report := o.Await(handle, platformtest.Over)
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
	o.Set("privateKey", "another-private-key")
	o.Prepared(t.TempDir())
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
		platformtest.RequireFault(t, kind(t.TempDir()), keys(service, inBucket(service, of.more)), of.field)
	}
}
