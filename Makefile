# Everything one does with Millstream, by name. `make run` and `make test` are all a newcomer needs.
#
#   make run    build console and server, start them with a demo channel, print every URL
#   make test   every test: crates, console, real clients, browser; needs what scripts/setup installs
#   make lint   formatting and clippy, warnings denied        make docs   API documentation, warnings denied
#   make deny   licences, advisories, banned crates           make fuzz   each parser for FUZZ_SECONDS
#   make bench  the benchmark against nginx-rtmp              make clean  remove what was built
#
# ARGS is handed to the server by `make run` (make run ARGS='--http-listen 0.0.0.0:8080') and to the script by `make bench`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

ARGS ?=
FUZZ_SECONDS ?= 120
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
CONSOLE_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print)

.PHONY: run test test-console test-rust test-interop test-browser console setup lint one-crypto-provider docs deny fuzz bench clean

run:
	scripts/setup build
	$(MAKE) console
	cargo build --release --locked --package millstream
	exec $(TARGET_DIR)/release/millstream demo $(ARGS)

# The browser test comes last: it uses the server that test-rust has built.
test: setup console
	$(MAKE) test-console
	$(MAKE) test-rust
	$(MAKE) test-interop
	$(MAKE) test-browser

setup:
	scripts/setup

test-console:
	cd web && npm test

test-rust:
	cargo test --workspace --locked

# SRTP against libsrtp, which must not enter the product's tree: a package of its own.
test-interop:
	cargo test --manifest-path crates/srtp/compare/Cargo.toml --target-dir $(TARGET_DIR) --locked

test-browser:
	cargo build --locked --package millstream
	scripts/test-console $(TARGET_DIR)/debug/millstream

# The server embeds web/dist, so the console is built before any Rust.
console: web/dist/index.html

web/dist/index.html: $(CONSOLE_SOURCES)
	scripts/setup build
	cd web && npm run build
	touch $@

lint: console
	cargo fmt --all --check
	$(MAKE) one-crypto-provider
	cargo clippy --workspace --all-targets --locked -- -D warnings

one-crypto-provider:
	@tree=$$(cargo tree --workspace --all-features --target all --prefix none --locked); \
	    ! grep -E '^(ring|openssl|openssl-sys|native-tls) v' <<<"$$tree"

docs: console
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked

deny:
	@command -v cargo-deny >/dev/null || { echo 'make deny: cargo-deny is missing: cargo install --locked cargo-deny' >&2; exit 1; }
	cargo deny --all-features check bans licenses sources
	cargo deny --all-features check advisories

# Each parser in turn; new inputs stay in fuzz/corpus, crashes in fuzz/artifacts.
fuzz:
	@cargo fuzz --version >/dev/null 2>&1 || { echo 'make fuzz: cargo-fuzz is missing: cargo install --locked cargo-fuzz' >&2; exit 1; }
	for target in $$(cargo +nightly fuzz list); do \
	    cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS) -timeout=10; \
	done

bench:
	scripts/setup
	scripts/bench rtmp-players $(ARGS)

clean:
	cargo clean
	rm -rf web/dist web/node_modules
