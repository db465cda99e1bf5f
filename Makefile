# What a developer does here. `make help` lists it.

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 30s
SESSIONS ?= 1000
CHAOS ?= 10m
ROUNDS ?= 3
ALIKE = Alike|Limiter|Pipeline|Sessions|Types|Moves|CrossProtocol

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/cellproxy
	go build -o bin/cellproxy ./cmd/cellproxy

run: build ## serve on 127.0.0.1:6380 with the embedded store; ARGS="--upstream redis://..." for more
	./bin/cellproxy serve $(ARGS)

test: ## run all tests, installing Redis, a C compiler and clients if they are missing
	./test/prerequisites
	CGO_ENABLED=1 go test -race -shuffle=on -count=1 -timeout 30m ./...

# What clients see must not depend on what is behind, but for the user's name.
topologies: ## run the tests of what clients see with TLS to the upstream, as a user of an ACL, and by a sentinel
	./test/prerequisites
	CGO_ENABLED=1 go test -race -count=1 -run '$(ALIKE)' ./test -args -topology tls
	CGO_ENABLED=1 go test -race -count=1 -run '$(ALIKE)' -skip 'Random|SessionsBehave' ./test -args -topology acl
	CGO_ENABLED=1 go test -race -count=1 -run '$(ALIKE)' ./test -args -topology sentinel

fuzz: ## run every fuzz target for FUZZTIME (default 30s), and play SESSIONS random sessions (default 1000)
	CGO_ENABLED=1 go test -race -count=1 -timeout 0 -run '^TestRandomSessions$$' ./test -args -sessions $(SESSIONS)
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

chaos: ## maltreat the upstream for CHAOS (default 10m) under the load of 200 clients
	./test/prerequisites
	CGO_ENABLED=1 go test -race -count=1 -timeout 0 -v -run '^TestChaos$$' ./test -args -chaos $(CHAOS)

image: ## build the program as docs/Dockerfile does, and see that it needs no other file
	go test -count=1 -run '^TestDockerImage$$' ./test -args -image

bench: bench-proxy bench-cost bench-go ## run all benchmarks

bench-proxy: ## cellproxy beside Redis, CELL=addr of a redis-cell, PEERS="name=addr ..." of other proxies; ROUNDS=3; ARGS="-help" for more
	./test/prerequisites
	go run ./test/bench -rounds $(ROUNDS) -cell "$(CELL)" -peers "$(PEERS)" $(ARGS)

bench-cost: ## what each limiter costs Redis
	./test/prerequisites
	go test -run '^$$' -bench Cost ./commands

bench-go: ## the hot functions, with their allocations
	go test -run '^$$' -bench . -skip Cost -benchmem ./...

pictures: ## draw the pictures of docs/limits.md
	go run ./docs/pictures docs

lint: ## check formatting, go vet, staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

ci: lint test ## what has to pass before a change goes in

.PHONY: help build run test topologies fuzz chaos image bench bench-proxy bench-cost bench-go pictures lint ci
.DEFAULT_GOAL := help
