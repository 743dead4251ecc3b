# One obvious command for each thing. `make test` runs everything there is to run.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS  := -s -w -X main.version=$(VERSION)
IMAGE    ?= sallyport:$(or $(VERSION),dev)

# The linter's version is written once, here; .ci/run calls `make lint`.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { sub(/:.*/, "", $$1); printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the static binary bin/sallyport
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/sallyport ./cmd/sallyport

.PHONY: demo
demo: ## Serve the built-in demo on this machine
	$(GO) run ./cmd/sallyport demo

.PHONY: test
test: controlplane ## Run every test there is; `go test ./...` is the quick part of it
	E2E_SWAPS=1000 E2E_FLOWS=100000 E2E_HELLOS=100000 E2E_WEBSOCKETS=10000 $(GO) test ./...
	$(GO) test -count=1 -tags controlplane -timeout 30m ./e2e/cluster
	cd e2e/oauth2proxy && $(GO) test -count=1 -timeout 30m .
	cd e2e/h2spec && $(GO) test -count=1 .
	cd e2e/grpcinterop && $(GO) test -count=1 -timeout 30m .

.PHONY: test-cluster
test-cluster: controlplane ## Run the tests against a real API server only, with Pods that are played
	$(GO) test -count=1 -tags controlplane -timeout 30m ./e2e/cluster

.PHONY: test-oauth2
test-oauth2: ## Run the tests against a real oauth2-proxy only; its first run builds one, which takes minutes
	cd e2e/oauth2proxy && $(GO) test -count=1 -timeout 30m .

.PHONY: test-browser
test-browser: ## Open a host with a certificate of the local CA in Chromium, which is installed if it is missing (Debian)
	@command -v chromium >/dev/null && command -v certutil >/dev/null || { apt-get update && apt-get install -y chromium libnss3-tools; }
	$(GO) test -count=1 -tags browser -timeout 15m -run '^TestABrowser' -v ./e2e

.PHONY: test-tls
test-tls: ## Have sslscan and testssl.sh (Debian packages, installed if missing) look at TLS, which takes minutes; TESTSSL=PROGRAM names testssl.sh 3.2 where Debian has an older one
	@command -v sslscan >/dev/null && command -v testssl >/dev/null && openssl engine gost >/dev/null 2>&1 || { apt-get update && apt-get install -y sslscan testssl.sh libengine-gost-openssl; }
	$(GO) test -count=1 -tags tlsscan -timeout 45m -run '^TestSSLScan|^TestTestSSL' ./e2e

.PHONY: test-grpc
test-grpc: ## Run gRPC's interop client and server only; its first run builds them, which takes minutes
	cd e2e/grpcinterop && $(GO) test -count=1 -timeout 30m .

.PHONY: controlplane
controlplane: ## Build the Kubernetes that the tests run against; minutes, once for a machine
	cd e2e/controlplane && $(GO) run .

.PHONY: race
race: ## Run every test under the race detector (needs a C compiler)
	$(GO) test -race ./...

.PHONY: fuzz
fuzz: ## Fuzz each fuzz target for FUZZTIME (default 20s)
	@set -e; for dir in $$($(GO) list -f '{{.Dir}}' ./...); do \
		for name in $$(cat $$dir/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do \
			echo "$$dir $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(FUZZTIME),20s) $$dir; \
		done; \
	done

.PHONY: bench
bench: ## Measure a request beside nginx and HAProxy; OPTIONS='-write docs/performance.md' (see -h), BENCH_AGAINST=BINARY
	$(GO) run ./e2e/bench $(OPTIONS)

.PHONY: profile
profile: ## Take the profile that the compiler optimizes the program by, cmd/sallyport/default.pgo, under the loads of make bench
	@set -e; folder=$$(mktemp -d); trap 'rm -r "$$folder"' EXIT; \
	$(GO) run ./e2e/bench -cases small,small-1000,tls,h2,64k,post -peers '' -rounds 1 -seconds 5 -paced 0 -profile "$$folder"; \
	$(GO) tool pprof -proto "$$folder"/*.pprof > "$$folder/all"; \
	mv "$$folder/all" cmd/sallyport/default.pgo

.PHONY: microbench
microbench: ## Run the benchmarks of the packages
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-scale
bench-scale: controlplane ## Measure one replica in a cluster of 10,000 Ingresses; PROFILES=DIR keeps its profiles
	BENCH_PROFILES=$(abspath $(PROFILES)) $(GO) test -tags controlplane -timeout 30m -run '^$$' -bench '^BenchmarkScale$$' -benchtime 1x ./e2e/cluster

.PHONY: bench-memory
bench-memory: ## Measure idle connections, and what a million requests leave behind; PROFILES=DIR keeps profiles
	BENCH_PROFILES=$(abspath $(PROFILES)) $(GO) test -tags bench -timeout 30m -run '^$$' -bench '^Benchmark(IdleConnections|Million)$$' -benchtime 1x ./e2e

.PHONY: bench-slow
bench-slow: ## Have 1,500 slow clients at once, and see how a good one fares
	$(GO) test -tags bench -timeout 10m -run '^$$' -bench '^BenchmarkSlowClients$$' -benchtime 1x ./e2e

.PHONY: lint
lint: ## Check formatting, vet and staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags controlplane ./e2e/cluster
	$(GO) vet -tags browser,bench ./e2e
	cd e2e/oauth2proxy && $(GO) vet .
	cd e2e/pebble && $(GO) vet .
	cd e2e/h2spec && $(GO) vet .
	cd e2e/grpcinterop && $(GO) vet .
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(STATICCHECK) -tags controlplane ./e2e/cluster

.PHONY: image
image: ## Build the container image
	docker build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

.PHONY: size
size: build ## Print the size of the stripped binary
	@wc -c < bin/sallyport | awk '{ printf "%.1f MB\n", $$1/1e6 }'

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf bin
