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

.PHONY: help build run test docs install release pictures vet unit race e2e stories chaos histories fuzz bench clean toolchain

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
	@echo "make build    leaves bin/starter"
	@echo "make install  puts it and its shell completions below PREFIX, /usr/local by default"
	@echo "make docs     writes the parts of docs and schema that come from the code"
	@echo "make release  packs an archive with checksums into dist, the same bytes everywhere"
	@echo "make chaos    kills everything at random, 200 rounds (resumable)"
	@echo "make bench    measures"

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
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bin/starter run examples/digits/experiment.yml || [ $$? = 130 ] # Ctrl-C detaches

test: build $(VENV)/ready
	testsuite/test.sh

docs: toolchain
	go test ./testsuite/docs -run 'Generated|Schema' -update
	go test ./testsuite/docs

PREFIX ?= /usr/local

install: build
	install -D -m 755 bin/starter $(DESTDIR)$(PREFIX)/bin/starter
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	bin/starter completion bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/starter
	bin/starter completion zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_starter
	bin/starter completion fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/starter.fish

# A release is the same bytes wherever it is made from the same commit: the
# toolchain is go.mod's, paths are trimmed, and nothing in the archive has a time
# or an owner of its own. Another machine's kind: RELEASE_ARCH=arm64.
RELEASE_ARCH ?= $(shell go env GOARCH)
RELEASE := perennial-$(VERSION)-linux-$(RELEASE_ARCH)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
COMPLETER = $(if $(filter $(RELEASE_ARCH),$(shell go env GOARCH)),dist/$(RELEASE)/starter,bin/starter)

release: export GOTOOLCHAIN = go$(shell awk '$$1 == "go" {print $$2}' go.mod)
release: toolchain $(RUNNERS)
	@echo "A release is built apart from other builds: the first one takes as long as the first make build."
	rm -rf dist/$(RELEASE) && mkdir -p dist/$(RELEASE)/completions
	CGO_ENABLED=0 GOOS=linux GOARCH=$(RELEASE_ARCH) go build -trimpath -ldflags "$(LDFLAGS)" -o dist/$(RELEASE)/starter ./starter
	for shell in bash zsh fish; do $(COMPLETER) completion $$shell > dist/$(RELEASE)/completions/starter.$$shell || exit; done
	cp -r README.md LICENSE CHANGELOG.md SECURITY.md CONTRIBUTING.md docs schema examples dist/$(RELEASE)/
	find dist/$(RELEASE) -name __pycache__ -prune -exec rm -r {} +
	set -o pipefail; tar -C dist --sort=name --format=ustar --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner \
		--mode=u=rwX,go=rX -cf - $(RELEASE) | gzip -9n > dist/$(RELEASE).tar.gz
	cd dist && sha256sum perennial-*.tar.gz > SHA256SUMS

# BENCH=--quick measures little; BENCH="--parts long" only one part
bench: build
	go run ./testsuite/bench $(BENCH)

# needs Chromium: apt-get install chromium
pictures: build
	@mkdir -p docs/pictures
	go run ./testsuite/webui/pictures bin/starter examples/shell/experiment.yml docs/pictures

# Finished rounds are kept in bin/chaos.jsonl and not run again.
chaos: build
	PERENNIAL_STARTER=$(CURDIR)/bin/starter go test ./testsuite/chaos -count=1 -v -timeout 0 -args -rounds 200 -results $(CURDIR)/bin/chaos.jsonl

# Records the histories that replay tests hold workflows to, from the program as it is.
histories: build
	PERENNIAL_STARTER=$(CURDIR)/bin/starter go test ./testsuite/replay -count=1 -run TestRecordHistories -args -refresh
