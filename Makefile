# make run    build and start the server with the examples applied
# make test   install what the tests need and run all of them
# make test-clients  boot real Ignition releases and write docs/clients.md
# make bench  run the benchmarks and write docs/benchmarks.md
# make lint   formatting, vet, staticcheck, known vulnerabilities, architecture, generated files
GO ?= go
export CGO_ENABLED ?= 0

.PHONY: build run test test-fast test-clients bench lint generate clean

build:
	@[ -d "$$($(GO) env GOCACHE)" ] && [ -x glowplug ] || echo "building glowplug; a first build takes a few minutes" >&2
	$(GO) build -o glowplug ./cmd/glowplug

run: build
	./glowplug serve --admin-listen 127.0.0.1:8081 --manifests examples/

test-fast:
	$(GO) test ./...

test:
	./hack/test.sh

test-clients:
	./hack/test-clients.sh

bench: build
	./hack/bench.sh

lint:
	./hack/lint.sh

generate:
	./hack/generate.sh

clean:
	rm -f glowplug
