# make run    builds starter and runs a real experiment
# make test   builds everything and passes every test
# make help   shows the rest

SHELL := /bin/bash
export GOTOOLCHAIN := auto
export GOFLAGS := -buildvcs=false
# NVML's header marks functions as deprecated, 29 warnings. Go compiles only three
# small packages again for it.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Some distributions' linkers bind every symbol at start, and a program with NVML
# in it would then not start where there is no NVIDIA driver.
LAZY := -extldflags=-Wl,-z,lazy
LDFLAGS := -s -w $(LAZY) -X github.com/perennial-ml/perennial/starter/command.Version=$(VERSION)
RUNNERS := runner/binary/built/perennial-runner-linux-amd64 runner/binary/built/perennial-runner-linux-arm64
# Some Python and shell is embedded, so it counts as Go does.
GOSOURCES := $(shell find . \( -name '*.go' -o -name '*.py' -o -name '*.sh' \) -not -path './.venv*' -not -path '*/node_modules/*' 2>/dev/null)
# The dashboard's pages, which npm builds and the program embeds.
PAGES := dashboard/pages/built/index.html
PAGESOURCES := $(shell find dashboard/web -type f -not -path '*/node_modules/*' 2>/dev/null)
VENV := .venv

.PHONY: kube-tools kube kube-down help build run test docs install release pictures vet unit race e2e stories chaos histories fuzz bench bench-tuners gpu-check clean toolchain

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile
	@echo "make build    leaves bin/starter"
	@echo "make install  puts it and its shell completions below PREFIX, /usr/local by default"
	@echo "make docs     writes the parts of docs and schema that come from the code"
	@echo "make release  packs an archive with checksums into dist, the same bytes everywhere"
	@echo "make kube     leaves a Kubernetes cluster of one node in the background, for root; make kube-down takes it away"
	@echo "make chaos    kills everything at random, 200 rounds (resumable)"
	@echo "make bench    measures"
	@echo "make bench-tuners  measures how good the search is, beside Optuna and NNI, into docs/tuner-quality.md"
	@echo "make gpu-check  builds bin/gpu-check, to be run where GPUs are: it shows that what starter does with them is right"

toolchain:
	@command -v go >/dev/null || { echo "Go is missing. On Debian: apt-get install golang-go, or see https://go.dev/doc/install"; exit 1; }
	@go version | awk '{split(substr($$3,3),v,"."); if (v[1]<1 || v[1]==1 && v[2]<21) {print "Go 1.21 or newer is needed to fetch the right toolchain; this is " $$3 ". See https://go.dev/doc/install"; exit 1}}'

build: toolchain bin/starter

runner/binary/built/perennial-runner-linux-%: $(GOSOURCES) go.mod
	@mkdir -p bin $(@D)
	CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -trimpath -ldflags "-s -w" -o bin/perennial-runner-linux-$* ./runner/perennial-runner
	gzip -9nc bin/perennial-runner-linux-$* > $@.new && mv $@.new $@

$(PAGES): $(PAGESOURCES)
	dashboard/web/build.sh

bin/starter: $(RUNNERS) $(PAGES) $(GOSOURCES) go.mod go.sum
	@test -d "$$(go env GOCACHE)" && [ "$$(du -sm "$$(go env GOCACHE)" 2>/dev/null | cut -f1)" -gt 1500 ] || \
		echo "The first build compiles the Temporal server: about seven minutes and 6 GB of disk on two cores."
	go build -ldflags "$(LDFLAGS)" -o $@ ./starter

$(VENV)/ready: examples/digits/requirements.txt
	@python3 -m venv $(VENV) || { echo "Python's venv is missing. On Debian: apt-get install python3-venv"; exit 1; }
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r examples/digits/requirements.txt
	@touch $@

run: build $(VENV)/ready
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" bin/starter run examples/digits/experiment.yml || [ $$? = 130 ] # Ctrl-C detaches

# What only tests need: Optuna, what builds the wheel, and the last NNI before 3.0.
$(VENV)/tests: $(VENV)/ready examples/optuna/requirements.txt testsuite/nni-2.10.txt testsuite/wheel.txt
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r examples/optuna/requirements.txt -r testsuite/wheel.txt
	@python3 -m venv $(VENV)-nni-2.10
	$(VENV)-nni-2.10/bin/pip install --quiet --disable-pip-version-check -r testsuite/nni-2.10.txt
	@touch $@

test: build $(VENV)/tests
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
release: toolchain $(RUNNERS) $(PAGES) $(VENV)/ready
	@echo "A release is built apart from other builds: the first one takes as long as the first make build."
	rm -rf dist/$(RELEASE) && mkdir -p dist/$(RELEASE)/completions
	CGO_ENABLED=0 GOOS=linux GOARCH=$(RELEASE_ARCH) go build -trimpath -ldflags "$(LDFLAGS)" -o dist/$(RELEASE)/starter ./starter
	for shell in bash zsh fish; do $(COMPLETER) completion $$shell > dist/$(RELEASE)/completions/starter.$$shell || exit; done
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(VENV)/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist/$(RELEASE) ./python
	cp -r README.md LICENSE CHANGELOG.md SECURITY.md CONTRIBUTING.md docs schema examples deploy dist/$(RELEASE)/
	find dist/$(RELEASE) -name __pycache__ -prune -exec rm -r {} +
	set -o pipefail; tar -C dist --sort=name --format=ustar --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner \
		--mode=u=rwX,go=rX -cf - $(RELEASE) | gzip -9n > dist/$(RELEASE).tar.gz
	cd dist && sha256sum perennial-*.tar.gz > SHA256SUMS

# BENCH=--quick measures little; BENCH="--parts long" only one part
bench: build
	go run ./testsuite/bench $(BENCH)

# TUNERBENCH=-quick measures little and leaves the page alone; -help lists the rest.
# Optuna and NNI are installed into bin/tunerbench, and what they found is kept there.
TUNERBENCH ?= -page docs/tuner-quality.md
bench-tuners: toolchain
	go run ./testsuite/tunerbench $(TUNERBENCH)

# One file of a few megabytes that needs no network and nothing installed: it is
# built anywhere and carried to a machine with NVIDIA GPUs. Exit codes: 0 all is
# right, 1 something is not, 2 there is no GPU.
gpu-check: toolchain $(RUNNERS)
	@mkdir -p bin
	go build -ldflags "-s -w $(LAZY)" -o bin/gpu-check ./testsuite/gpucheck
	@size=$$(stat -c %s bin/gpu-check) && [ $$size -lt $$((64 << 20)) ] || { echo "bin/gpu-check is too big to carry: $$size bytes"; exit 1; }
	bin/gpu-check || [ $$? = 2 ] # without a GPU here it was built, no more

# The programs of a cluster: some ten minutes the first time, seconds afterwards.
kube-tools: toolchain
	testsuite/kube/tools/build.sh bin/kube

kube: kube-tools $(VENV)/ready
	@bin/kube/up -python $(VENV)/bin/python3

kube-down:
	@bin/kube/up -down

# needs Chromium: apt-get install chromium
pictures: build $(VENV)/ready
	@mkdir -p docs/pictures
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" go run ./testsuite/webui/pictures bin/starter examples/shell/experiment.yml examples/digits/experiment.yml docs/pictures

# Finished rounds are kept in bin/chaos.jsonl and not run again.
chaos: build
	PERENNIAL_STARTER=$(CURDIR)/bin/starter go test ./testsuite/chaos -count=1 -v -timeout 0 -args -rounds 200 -results $(CURDIR)/bin/chaos.jsonl

# Records the histories that replay tests hold workflows to, from the program as it is.
histories: build
	PERENNIAL_STARTER=$(CURDIR)/bin/starter go test ./testsuite/replay -count=1 -run TestRecordHistories -args -refresh
