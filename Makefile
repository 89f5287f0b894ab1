GO ?= go
export CGO_ENABLED ?= 0

# The version and the commit come from git; without git the program has the values of
# internal/version. Go's own stamps (-buildvcs) differ between a clone and a worktree. Paths
# are left in (-trimpath): without them nothing would be shared with what tests have compiled.
VERSION ?= $(patsubst v%,%,$(shell git describe --tags --always --dirty 2>/dev/null))
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS = -s -w $(if $(VERSION),-X glowplug/internal/version.Version=$(VERSION)) \
	$(if $(COMMIT),-X glowplug/internal/version.commit=$(COMMIT))

# Every target but help and clean needs Go.
ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),build)),)
ifeq ($(shell command -v $(GO)),)
$(error there is no Go ($(GO)): install Go 1.26 or later from https://go.dev/dl/ and put its bin folder on the PATH)
endif
endif

.PHONY: build run test test-all test-fast test-clients test-console test-plan screenshots bench lint generate editor release test-release test-packages clean help

build: ## build ./glowplug, stripped, with the version of git
	@[ -d "$$($(GO) env GOCACHE)" ] && [ -x glowplug ] || echo "building glowplug; a first build takes a few minutes" >&2
	$(GO) build -buildvcs=false -ldflags '$(strip $(LDFLAGS))' -o glowplug ./cmd/glowplug

run: build ## build and start the server with the examples applied and the folder isos for images
	@mkdir -p isos
	./glowplug serve --admin-listen 127.0.0.1:8081 --manifests examples/ --iso-dir isos/

test: ## install what the tests need and run those of every landing
	./hack/test.sh

test-all: test ## run the long ones as well: random input, fuzz targets, 500 plans, slow machines, the console
	./hack/test-all.sh

test-fast: ## run the tests that need neither root nor installed programs
	$(GO) test ./...

test-clients: ## boot real Ignition releases and write docs/internals/clients.md
	./hack/test-clients.sh

test-console: ## install what the tests need and try the console in a browser
	./hack/test-console.sh

screenshots: ## write a picture of each page of the console into docs/images: light, dark, phone
	GLOWPLUG_SCREENSHOTS=$(CURDIR)/docs/images ./hack/test-console.sh

test-plan: ## hold plans against the real Ignition: 500 pairs of a disk and a config on loop devices
	TEST_E2E=1 PLAN_PAIRS=$${PLAN_PAIRS:-500} $(GO) test -count=1 -v -timeout 40m ./test/plan

bench: build ## run the benchmarks and write docs/internals/benchmarks.md
	./hack/bench.sh

lint: ## formatting, vet, staticcheck, errcheck, known vulnerabilities, architecture, generated files
	./hack/lint.sh

generate: ## write generated code and docs/reference
	./hack/generate.sh

editor: ## write the web console's vendored CodeMirror from hack/codemirror, with npm; UPDATE=1 takes the newest
	$(GO) -C hack/codemirror run . $(if $(UPDATE),-update)

release: ## build archives, packages and an image for linux amd64 and arm64 into dist/, with SBOMs and sums
	./hack/release.sh

test-release: ## build the release twice, in two directories, and compare the sums
	./hack/test-release.sh

test-packages: build ## install, upgrade, run, remove and purge the deb in a Debian of its own, and check the rpm
	./hack/test-packages.sh

clean: ## remove what was built
	rm -rf glowplug dist

help: ## print this
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 16
