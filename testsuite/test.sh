#!/usr/bin/env bash
# Everything that has to hold, in the order of what is quickest to know.
set -euo pipefail
cd "$(dirname "$0")/.."

install_packages() {
    # Debian would start daemons of its own, for all the world, unless it is told not to.
    local policy=/usr/sbin/policy-rc.d
    [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' > $policy; chmod +x $policy; trap 'rm -f /usr/sbin/policy-rc.d' EXIT; }
    # apt writes where everybody may, and some machines' /tmp is root's alone.
    TMPDIR=/var/tmp apt-get -qq update && TMPDIR=/var/tmp DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

step() { printf '\n== %s (%s)\n' "$1" "$(date +%T)"; }

# tests runs the tests of PACKAGES, with go's flags after them, as `go test` would. One that
# fails runs once more, alone: laboratories share a machine, and whoever changes something has to
# know what broke. What passes only then is a fault too, and the end says it aloud. Many
# failures, a data race or a package that does not build are nobody's bad luck.
tests() {
    local format=$1 packages=$2
    shift 2
    bin/tools/gotestsum --format "standard-$format" --hide-summary skipped \
        --rerun-fails=1 --rerun-fails-max-failures 8 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race \
        --rerun-fails-report "$again" --packages "$packages" -- "$@" | grep -vE '^=== (RUN|PAUSE|CONT)' || return
    cat "$again" >> "$unsteady" && : > "$again"
}
again=$(mktemp) unsteady=$(mktemp)
[ -x bin/tools/gotestsum ] || GOBIN=$PWD/bin/tools go install gotest.tools/gotestsum@v1.13.0

# Packages that link the Temporal server are tested without -race, all but one:
# building the server a second time, for -race, costs ten minutes.
linked=$(go list -test -f '{{.ImportPath}}|{{join .Deps " "}}' ./... |
    awk -F'|' 'index(" " $2 " ", " go.temporal.io/server/temporal ") {print $1}' |
    sed 's/ .*//; s/\.test$//; s/_test$//' | sort -u)
mapfile -t plain < <(echo "$linked" | grep -v /testsuite/)
mapfile -t raced < <(go list ./... | grep -vxF "$linked" | grep -v '/tuners$\|/platforms/kubernetes\|/testsuite/\(endtoend\|chaos\|webui\|cluster\|bench\|sshlab\|slurmlab\|kube\)')

step "format and vet"
unformatted=$(gofmt -l $(git ls-files '*.go' 2>/dev/null || find . -name '*.go'))
[ -z "$unformatted" ] || { echo "not formatted: $unformatted"; exit 1; }
go vet ./...

step "workflows are deterministic"
go run go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0 ./workflows/...

step "what laboratories of SSH hosts are made of"
if [ "$(id -u)" = 0 ] && ! { [ -x /usr/sbin/sshd ] && [ -x /bin/csh ] && command -v ip && command -v ssh && command -v nsenter; } >/dev/null; then
    install_packages openssh-server openssh-client iproute2 util-linux csh
fi

step "what a Slurm cluster is made of, and an example of a platform"
if [ "$(id -u)" = 0 ] && ! { command -v slurmctld && command -v slurmd && command -v sbatch && command -v munged && command -v jq && command -v pgrep; } >/dev/null; then
    install_packages slurmctld slurmd slurm-client munge jq procps
fi

step "what a PostgreSQL is made of"
if [ "$(id -u)" = 0 ] && ! { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1; then
    install_packages postgresql
fi

# Tuners are state machines without a goroutine, and their suite computes a lot.
step "what every tuner promises"
tests quiet ./tuners -timeout 15m

step "unit tests, with the race detector"
tests quiet "${raced[*]}" -race -timeout 30m # the bridge starts the real NNI some fifty times

step "the embedded server and its host"
tests quiet "${plain[*]}" -timeout 10m

step "stories, crashes and power cuts, with the real program"
tests verbose "./testsuite/sshlab ./testsuite/slurmlab ./testsuite/endtoend/... ./testsuite/chaos/..." -timeout 40m -p 1

step "the Web UI and the temporal command line, on Temporal's own pages and messages"
[ -x bin/tools/temporal ] || GOBIN=$PWD/bin/tools go install github.com/temporalio/cli/cmd/temporal@v1.5.1
if [ "$(id -u)" = 0 ] && ! command -v chromium >/dev/null; then
    install_packages chromium
fi
PERENNIAL_TEMPORAL_CLI=$PWD/bin/tools/temporal tests verbose ./testsuite/webui -timeout 15m

step "any Temporal: the stock server on PostgreSQL"
tests verbose ./testsuite/cluster/... -timeout 15m

step "Kubernetes: a node of its own and the real operators, which root's test builds"
if [ "$(id -u)" = 0 ]; then
    { command -v containerd && command -v runc && command -v busybox && command -v ip && [ -x /usr/lib/cni/ptp ]; } >/dev/null ||
        install_packages containerd runc containernetworking-plugins busybox-static iproute2
    testsuite/kube/tools/build.sh bin/kube
fi
# Pods mostly wait for each other: more of them at once than there are cores keeps the cores busy.
tests verbose ./platforms/kubernetes/... -race -timeout 30m -parallel 6
tests verbose ./testsuite/kube/... -timeout 30m -p 1

step "one end-to-end package with the race detector"
tests quiet ./testsuite/raced/... -race -timeout 20m

[ ! -s "$unsteady" ] || { printf '\n== passed only when they ran again: faults of the test or of the product\n'; cat "$unsteady"; }
rm -f "$again" "$unsteady"
