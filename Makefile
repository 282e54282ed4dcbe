# make run    builds starter and runs a real experiment
# make test   builds everything and passes every test
# make help   shows the rest

SHELL := /bin/bash
export GOTOOLCHAIN := auto
export GOFLAGS := -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/perennial-ml/perennial/starter/command.Version=$(VERSION)
RUNNERS := runner/binary/built/perennial-runner-linux-amd64 runner/binary/built/perennial-runner-linux-arm64
GOSOURCES := $(shell find . -name '*.go' -not -path './.venv/*' 2>/dev/null)
VENV := .venv

.PHONY: help build run test vet unit race e2e stories chaos fuzz bench clean toolchain

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
	@echo "make build  leaves bin/starter"
	@echo "make chaos  kills everything at random, 200 rounds (resumable)"
	@echo "make bench  measures"

toolchain:
	@command -v go >/dev/null || { echo "Go is missing. On Debian: apt-get install golang-go, or see https://go.dev/doc/install"; exit 1; }
	@go version | awk '{split(substr($$3,3),v,"."); if (v[1]<1 || v[1]==1 && v[2]<21) {print "Go 1.21 or newer is needed to fetch the right toolchain; this is " $$3 ". See https://go.dev/doc/install"; exit 1}}'

build: toolchain bin/starter

runner/binary/built/perennial-runner-linux-%: $(GOSOURCES) go.mod
	@mkdir -p bin $(@D)
	CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -trimpath -ldflags "-s -w" -o bin/perennial-runner-linux-$* ./runner/perennial-runner
	gzip -9nc bin/perennial-runner-linux-$* > $@.new && mv $@.new $@

bin/starter: $(RUNNERS) $(GOSOURCES) go.mod go.sum
	@test -d "$$(go env GOCACHE)" && [ "$$(du -sm "$$(go env GOCACHE)" 2>/dev/null | cut -f1)" -gt 1500 ] || \
		echo "The first build compiles the Temporal server: about seven minutes and 6 GB of disk on two cores."
	go build -ldflags "$(LDFLAGS)" -o $@ ./starter

$(VENV)/ready: examples/digits/requirements.txt
	@python3 -m venv $(VENV) || { echo "Python's venv is missing. On Debian: apt-get install python3-venv"; exit 1; }
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r examples/digits/requirements.txt
	@touch $@

run: build $(VENV)/ready
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bin/starter run examples/digits/experiment.yml

test: build $(VENV)/ready
	testsuite/test.sh
