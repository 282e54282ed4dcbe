#!/usr/bin/env bash
# Everything that has to hold, in the order of what is quickest to know.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (%s)\n' "$1" "$(date +%T)"; }

# Packages that link the Temporal server are tested without -race, all but one:
# building the server a second time, for -race, costs ten minutes.
mapfile -t all < <(go list ./...)
server='go.temporal.io/server/temporal'
mapfile -t linked < <(go list -deps -test -f '{{if not .Standard}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... 2>/dev/null |
    awk -v s="$server" 'index($0, " " s " ") || $0 ~ " " s "$" {print $1}' | sed 's/\.test$//; s/_test$//; s/ .*//' | sort -u)
unlinked=()
for package in "${all[@]}"; do
    case "$package" in */testsuite/endtoend*|*/testsuite/chaos*) continue ;; esac
    printf '%s\n' "${linked[@]}" | grep -qx "$package" || unlinked+=("$package")
done
with=()
for package in "${all[@]}"; do
    case "$package" in */testsuite/*) continue ;; esac
    printf '%s\n' "${linked[@]}" | grep -qx "$package" && with+=("$package")
done

step "format and vet"
unformatted=$(gofmt -l $(git ls-files '*.go' 2>/dev/null || find . -name '*.go'))
[ -z "$unformatted" ] || { echo "not formatted: $unformatted"; exit 1; }
go vet ./...

step "workflows are deterministic"
go run go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0 ./workflows/...

step "unit tests, with the race detector"
go test -race -timeout 15m "${unlinked[@]}"

step "the embedded server and its host"
go test -timeout 10m "${with[@]}"

step "stories, crashes and power cuts, with the real program"
go test -timeout 40m -v ./testsuite/endtoend/... 2>&1 | grep -vE '^=== (RUN|PAUSE|CONT)'

step "one end-to-end package with the race detector"
go test -race -timeout 20m ./testsuite/raced/...
