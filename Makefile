# The longer recipes live in scripts/.
.DEFAULT_GOAL := help
.PHONY: help setup demo run build test check lint fmt test-servers test-clients faults soak sanitize pictures bench bench-core \
  profile floor fuzz coverage mutants

help: ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing to build and run (apt; asks for nothing)
	@scripts/setup.sh

build: setup ## build the module: target/release/libredis_rl.so
	@. scripts/env.sh && cargo build --release --locked

demo: build ## a tour of every command on a private server, and a picture of one burst
	@scripts/demo.sh

run: build ## serve with the module until Ctrl-C (PORT=6379, or the next free one)
	@scripts/run.sh

fmt: ## format the code
	@. scripts/env.sh && cargo fmt && for p in $$packages; do cargo fmt --all --manifest-path $$p/Cargo.toml; done

lint: setup ## check format, warnings, dependencies and the rules of the house; installs cargo-deny
	@scripts/setup.sh lint && scripts/lint.sh

check: lint build ## lint, and all tests against the installed server: a few minutes
	@scripts/check.sh

test: ## all that must pass before a change goes in: check, four more servers, clients and middlewares
	@+scripts/test.sh

test-servers: build ## the server tests on other versions (SERVERS="redis-7.4.1 valkey-9.1.2")
	@scripts/setup.sh servers && scripts/test-servers.sh

test-clients: build ## one program per client library, and the HTTP middlewares (ONLY="redis-py Express")
	@scripts/setup.sh clients && . scripts/env.sh && tests/clients/run.py $(ONLY)

faults: build ## kill, full disk, broken links, clock steps, memory and connections under load, many times (ROUNDS=5)
	@. scripts/env.sh && RL_FAULT_ROUNDS=$(or $(ROUNDS),5) cargo test --locked --test faults --test faults_replicas -- --nocapture

soak: build ## fifty clients at three times every limit, in real time (MINUTES=20)
	@. scripts/env.sh && MINUTES=$(or $(MINUTES),20) cargo test --locked --test soak -- --ignored --nocapture

sanitize: build ## hostile input and replication under AddressSanitizer and valgrind (ONLY=asan or valgrind)
	@scripts/setup.sh sanitize && scripts/sanitize.sh $(ONLY)

pictures: build ## draw docs/img/ again, from real runs under a set clock (ONLY="burst leaky")
	@scripts/pictures.py $(ONLY)

floor: setup
	@. scripts/env.sh && cargo build --release --locked -q --manifest-path tests/bench/floor/Cargo.toml --target-dir target/bench

bench: build floor ## measure against INCR and Lua; writes docs/benchmarks.md, docs/scaling.md (QUICK=1: only prints; REDIS_CELL=path.so)
	@. scripts/env.sh && cargo run --release --locked -q --manifest-path tests/bench/Cargo.toml --target-dir target/bench

bench-core: setup ## nanoseconds and allocations of one decision, without a server
	@. scripts/env.sh && cargo bench --locked -q --manifest-path tests/bench/Cargo.toml --target-dir target/bench

profile: build floor ## instructions per command and function, under valgrind (CASES="token-allowed incr")
	@tests/bench/profile.sh

fuzz: ## fuzz each target for TIME=1200 seconds, installs cargo-fuzz (TARGETS="decode words calls"; KEEP=1)
	@scripts/setup.sh fuzz && scripts/fuzz.sh

coverage: setup ## lines of src that tests reach, servers and all; fails below 95 % (LEAST=95)
	@scripts/setup.sh servers && scripts/setup.sh coverage && scripts/coverage.sh

mutants: setup ## change the core in one place at a time: do tests notice? Hours (FILES="level slide"; SHARD=0/8)
	@scripts/mutants.sh
