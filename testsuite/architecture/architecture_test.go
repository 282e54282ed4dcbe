// Package architecture holds the rule of who may import whom.
package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/perennial-ml/perennial/"

// rooms says what each room may import of ours. A name stands for itself and, with
// a trailing /..., for everything below it. "*" is everything but testsuite.
var rooms = map[string][]string{
	"trial":                         {},
	"searchspace":                   {},
	"experiment":                    {"searchspace", "trial"},
	"experiment/secrets":            {"experiment"},
	"arguments":                     {},
	"tuners":                        {"arguments", "searchspace", "trial"},
	"tuners/bridge":                 {"tuners", "arguments", "searchspace", "trial"},
	"assessors":                     {"arguments", "searchspace", "trial"},
	"codedir":                       {},
	"metrics":                       {"trial"},
	"gpu":                           {},
	"gpu/nvml":                      {"gpu"},
	"record":                        {"metrics", "trial"},
	"platforms":                     {"trial", "metrics", "codedir", "gpu"},
	"platforms/local":               {"platforms", "platforms/internal/machines", "runner/rundir", "machine", "gpu", "trial", "metrics", "codedir"},
	"platforms/remote":              {"platforms", "platforms/internal/archives", "platforms/internal/machines", "platforms/internal/ssh", "runner/rundir", "machine", "machine/agent", "gpu", "trial", "metrics", "codedir"},
	"platforms/executable":          {"platforms", "platforms/internal/verbs", "runner/rundir", "trial"},
	"platforms/openpai":             {"platforms", "platforms/internal/jobs", "platforms/internal/service", "platforms/internal/verbs", "runner/rundir", "trial"},
	"platforms/internal/jobs":       {"platforms", "platforms/internal/verbs", "runner/rundir", "runner/mailbox", "trial"},
	"platforms/aml":                 {"platforms", "platforms/internal/archives", "platforms/internal/service", "platforms/internal/verbs", "runner/rundir", "runner/stream", "trial", "metrics"},
	"platforms/dlc":                 {"platforms", "platforms/internal/jobs", "platforms/internal/service", "platforms/internal/verbs", "runner/rundir", "trial"},
	"platforms/dlts":                {"platforms", "platforms/internal/jobs", "platforms/internal/service", "platforms/internal/verbs", "runner/rundir", "trial"},
	"platforms/uaitrain":            {"platforms", "platforms/internal/archives", "platforms/internal/service", "platforms/internal/verbs", "runner/rundir", "runner/stream", "trial", "metrics", "codedir"},
	"platforms/internal/verbs":      {"platforms", "runner/rundir", "trial", "metrics", "codedir"},
	"platforms/adl":                 {"platforms", "platforms/internal/kube"},
	"platforms/frameworkcontroller": {"platforms", "platforms/internal/kube"},
	"platforms/kubeflow":            {"platforms", "platforms/internal/kube"},
	"platforms/kubernetes":          {"platforms", "platforms/internal/kube"},
	"platforms/internal/kube":       {"platforms", "platforms/internal/archives", "runner/rundir", "runner/stream", "gpu", "trial", "metrics", "codedir"},
	"platforms/internal/machines":   {"platforms", "machine"},
	"platforms/internal/archives":   {"runner/rundir", "codedir"},
	"platforms/internal/service":    {"platforms", "runner/rundir"},
	"platforms/fake":                {"platforms", "runner/rundir", "gpu", "trial", "metrics", "codedir"},
	"platforms/all":                 {"platforms/...", "trial", "gpu"},
	"machine":                       {"runner/rundir", "gpu", "trial", "metrics", "codedir"},
	"machine/agent":                 {"machine", "runner/rundir", "gpu", "trial", "metrics", "codedir"},
	"runner":                        {"trial", "metrics", "gpu", "codedir", "runner/rundir", "runner/stream", "runner/mailbox", "runner/trialmodule"},
	"runner/rundir":                 {"trial", "metrics", "gpu"},
	"runner/mailbox":                {"runner/rundir"},
	"runner/stream":                 {"trial", "metrics", "runner/rundir"},
	"runner/trialmodule":            {"trial"},
	"runner/binary":                 {},
	"runner/perennial-runner":       {"runner", "trial", "runner/rundir", "machine/agent"},
	"activities":                    {"activities/poller", "platforms", "record", "runner/rundir", "tuners", "tuners/bridge", "assessors", "codedir", "experiment", "trial", "metrics"},
	"activities/poller":             {"platforms", "record", "trial", "metrics"},
	"workflows":                     {"activities", "platforms", "experiment", "trial", "record"},
	"workers":                       {"workers/...", "workflows", "activities", "activities/poller", "platforms", "record", "tuners", "tuners/bridge", "assessors", "gpu/nvml", "trial"},
	"workers/sweeper":               {"workflows", "activities", "activities/poller", "platforms", "record", "trial"},
	"workers/codec":                 {},
	"embedded":                      {"door", "workers/codec"},
	"door":                          {},
	"telemetry":                     {"activities/poller", "record"},
	"dashboard":                     {"dashboard/importance", "dashboard/views", "experiment", "metrics", "platforms", "record", "trial", "workflows"},
	"dashboard/importance":          {},
	"dashboard/views":               {"experiment", "gpu", "metrics", "platforms", "record", "trial"},
	"starter":                       {"*"},
}

// outside says which rooms, alone, may reach a dependency that has its own room.
var outside = map[string][]string{
	"go.temporal.io/server":              {"embedded"},
	"github.com/temporalio/ui-server/":   {"embedded"},
	"go.temporal.io/sdk":                 {"activities", "workflows", "workers", "embedded", "starter", "telemetry", "testsuite"},
	"k8s.io/client-go":                   {"platforms/internal/kube"},
	"github.com/alibabacloud-go/":        {"platforms/dlc"},
	"github.com/ucloud/":                 {"platforms/uaitrain"},
	"github.com/ufilesdk-dev/":           {"platforms/uaitrain"},
	"github.com/NVIDIA/go-nvml":          {"gpu/nvml"},
	"github.com/Azure/azure-sdk-for-go/": {"platforms/aml"},
	"github.com/jackc/pgx/":              {"record"},
	"github.com/prometheus/":             {"activities/poller", "record", "telemetry"},
	"go.opentelemetry.io/":               {"telemetry"},
}

type listed struct {
	ImportPath string
	Doc        string
	Imports    []string
}

func TestEveryRoomImportsOnlyWhatTheTableAllows(t *testing.T) {
	for _, p := range list(t) {
		room := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(room, "testsuite") {
			continue
		}
		require.NotEmpty(t, p.Doc, "%s has no doc comment", room)
		for _, imported := range p.Imports {
			if ours, ok := strings.CutPrefix(imported, module); ok {
				require.True(t, allowed(room, ours), "%s must not import %s", room, ours)
			}
			for dependency, owners := range outside {
				if strings.HasPrefix(imported, dependency) {
					require.True(t, within(room, owners), "%s must not import %s", room, imported)
				}
			}
		}
	}
}

func allowed(room, imported string) bool {
	if strings.HasPrefix(imported, "testsuite") {
		return false
	}
	if strings.HasPrefix(room, "starter") {
		return true
	}
	for _, may := range rooms[room] {
		below, all := strings.CutSuffix(may, "/...")
		if imported == may || all && strings.HasPrefix(imported, below+"/") || all && imported == below {
			return true
		}
	}
	return false
}

func within(room string, owners []string) bool {
	for _, owner := range owners {
		if room == owner || strings.HasPrefix(room, owner+"/") {
			return true
		}
	}
	return false
}

func list(t *testing.T) (packages []listed) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports", module+"...").Output()
	require.NoError(t, err)
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			require.Greater(t, len(packages), len(rooms)/2)
			return packages
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
}
