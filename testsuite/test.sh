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
go test -timeout 15m ./tuners

step "unit tests, with the race detector"
go test -race -timeout 30m "${raced[@]}" # the bridge starts the real NNI some fifty times

step "the embedded server and its host"
go test -timeout 10m "${plain[@]}"

step "stories, crashes and power cuts, with the real program"
go test -timeout 40m -p 1 -v ./testsuite/sshlab ./testsuite/slurmlab ./testsuite/endtoend/... ./testsuite/chaos/... 2>&1 | grep -vE '^=== (RUN|PAUSE|CONT)'

step "the Web UI and the temporal command line, on Temporal's own pages and messages"
[ -x bin/tools/temporal ] || GOBIN=$PWD/bin/tools go install github.com/temporalio/cli/cmd/temporal@v1.5.1
if [ "$(id -u)" = 0 ] && ! command -v chromium >/dev/null; then
    install_packages chromium
fi
PERENNIAL_TEMPORAL_CLI=$PWD/bin/tools/temporal go test -timeout 15m -v ./testsuite/webui 2>&1 | grep -vE '^=== (RUN|PAUSE|CONT)'

step "any Temporal: the stock server on PostgreSQL"
go test -timeout 15m -v ./testsuite/cluster/... 2>&1 | grep -vE '^=== (RUN|PAUSE|CONT)'

step "Kubernetes: a node of its own and the real operators, which root's test builds"
if [ "$(id -u)" = 0 ]; then
    { command -v containerd && command -v runc && command -v busybox && command -v ip && [ -x /usr/lib/cni/ptp ]; } >/dev/null ||
        install_packages containerd runc containernetworking-plugins busybox-static iproute2
    testsuite/kube/tools/build.sh bin/kube
fi
# Pods mostly wait for each other: more of them at once than there are cores keeps the cores busy.
go test -race -timeout 30m -parallel 6 -v ./platforms/kubernetes/... 2>&1 | grep -vE '^=== (RUN|PAUSE|CONT)'
go test -timeout 30m -p 1 -v ./testsuite/kube/... 2>&1 | grep -vE '^=== (RUN|PAUSE|CONT)'

step "one end-to-end package with the race detector"
go test -race -timeout 20m ./testsuite/raced/...
