# Everything one does with Millstream, by name. `make run` and `make test` are all a newcomer needs.
#
#   make run    build console and server, start them with a demo channel, print every URL
#   make cluster-demo  NATS and three servers of one cluster, and every URL (needs nats-server; root for namespaces)
#   make test   every test: crates, console, real clients, browser; needs what scripts/setup installs
#   make quick  what changed, within a minute and a half: formatting, clippy, unit tests (BASE=revision to compare with)
#   make lint   formatting and clippy, warnings denied        make docs   API documentation, warnings denied
#   make docs-rs  that of the libraries as docs.rs would build it: all features, nightly
#   make deny   licences, advisories, banned crates           make fuzz   each parser for FUZZ_SECONDS
#   make neon   ssrc-map and msgpack-array for 64-bit ARM, in an emulator
#   make wasm   msgpack-array for WebAssembly: the crate and the npm package, in Node and Chromium
#   make miri   their unsafe code in an interpreter
#   make test-interop  WebRTC, SRTP, MessagePack, bridges to and from RTMP, channels, pulls and clusters with other implementations
#   make test-full-size  attacks and bridges at the sizes of the specification, which take long
#   make portable  group-send and range-reader compile for macOS and Windows
#   make test-counts  instructions that the libraries' kernels take, against docs/benchmarks/goals.toml (needs valgrind)
#   make test-scripts  parts of the benchmarks that need no server
#   make bench  the benchmark against nginx-rtmp              make clean  remove what was built
#   make soak   20 minutes of clients of every protocol coming and going; the server must end as it began (ARGS='--minutes 120')
#   make sim    whole servers in virtual time: SEEDS=10000, or SEED=4711 for one again (docs/simulation.md)
#   make sim-mutants  which planted bugs that finds   make sim-speed  how much faster than real time it is
#   make house  figures of how the code reads: lines, circles of imports, functions with one caller, the walk of a packet
#   make moq    Media over QUIC, which is behind a cargo feature: clippy, its tests of the server, Chromium
#   make test-walks  what a packet passes in the running server is what scripts/house.d/walks lists
#   make packages  the libraries as they would be published: crates, C, a wheel, npm; each tried in a clean environment
#   make deb    a Debian package (needs cargo-deb)   make sbom  what is in the binary (needs cargo-cyclonedx)
#   make reproducible  whether two builds in different folders give the same bytes
#   make lint-deploy  what is in deploy/, Dockerfile, workflows: by the tools that are here
#   make typos  spelling   make semver  public interfaces of the libraries against the last release   make coverage  by tests
#
# ARGS is handed to the server by `make run` (make run ARGS='--http-listen 0.0.0.0:8080') and to the script by `make bench`,
# `make soak` and `make cluster-demo`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

ARGS ?=
BASE ?=
FUZZ_SECONDS ?= 120
NEXTEST_PROFILE ?= default
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
CONSOLE_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print)

.PHONY: run cluster-demo quick test test-console test-scripts test-counts test-rust moq test-interop test-interop-files test-interop-live test-full-size test-browser test-walks sim sim-mutants sim-speed console setup fmt lint lint-contenders \
    one-crypto-provider docs docs-rs deny neon wasm portable miri fuzz bench soak house typos semver coverage \
    clean \
    deb packages sbom reproducible lint-deploy

run:
	scripts/setup build
	$(MAKE) console
	cargo build --release --locked --package millstream
	exec $(TARGET_DIR)/release/millstream demo $(ARGS)

cluster-demo:
	scripts/setup build
	$(MAKE) console
	scripts/cluster-demo $(ARGS)

quick: console
	scripts/quick $(BASE)

# The browser test comes last: it uses the server that test-rust has built.
test: setup console
	$(MAKE) test-console
	$(MAKE) test-scripts
	$(MAKE) test-rust
	$(MAKE) test-counts
	$(MAKE) wasm
	$(MAKE) test-interop
	$(MAKE) test-browser
	$(MAKE) moq

setup:
	scripts/setup

test-console:
	cd web && npm test

# Parts of the benchmarks that need no server.
test-scripts:
	python3 -m unittest discover --start-directory scripts/tests

# Instructions of the libraries' kernels: what no machine's mood changes.
test-counts:
	scripts/bench check --counts

# group-send's trials between hosts need root, and say so. transcode again with libfdk-aac, msgpack-array again without std; all
# else that is chosen at build time is in the first build, because a test or another package wants it.
test-rust:
ifneq (,$(shell command -v cargo-nextest))
	cargo nextest run --profile $(NEXTEST_PROFILE) --workspace --locked
	cargo test --workspace --doc --locked
else
	scripts/test-rust
	cargo test --workspace --doc --locked
endif
	scripts/test-rust --package transcode --features transcode/fdk-aac
	cargo test --package msgpack-array --no-default-features --locked

# The server with the experiment that no ordinary build has. The crate itself is tested with all others;
# only the configuration and the server are compiled again.
moq: console
	cargo clippy --workspace --features millstream/moq --bins --test server --locked -- -D warnings
	cargo test --workspace --features millstream/moq --test server --locked -- moq_
	scripts/test-interop-moq $(TARGET_DIR)/interop $(TARGET_DIR)/debug/millstream

# Debug server and load generator for other programs' tests: those that test-rust builds for its own
# tests. Built as packages alone they would have fewer features of their dependencies, and a ninth of
# all crates would be compiled again.
DEBUG_SERVER := cargo test --workspace --locked --no-run --quiet --test server --test millbench

# SRTP against libsrtp, which must not enter the product's tree: a package of its own. Then MessagePack in Python and C++, MP4 as
# ffprobe sees it, the directory of a cluster on a newer nats-server than Debian's, other WebRTC stacks, ffmpeg on the other side
# of a bridge, nginx as origin of channels and pulls, all of them on three nodes of a cluster; Pebble as certificate authority.
test-interop: test-interop-files test-interop-live

test-interop-files:
	cargo test --manifest-path crates/srtp/compare/Cargo.toml --target-dir $(TARGET_DIR) --locked
	scripts/bench ssrc-map-libsrtp --tests-only
	scripts/test-interop-msgpack $(TARGET_DIR)/interop
	scripts/make-mp4-samples check $(TARGET_DIR)/interop/mp4
	@newer=$$(realpath -m $(TARGET_DIR)/interop/nats/nats-server); \
	    if [ -x "$$newer" ]; then NATS_SERVER=$$newer cargo test --workspace --test cluster --locked; \
	    else echo "SKIPPED cluster: a newer nats-server is not built (scripts/setup)"; fi

test-interop-live: console
	$(DEBUG_SERVER)
	scripts/test-interop-live $(TARGET_DIR)/interop $(TARGET_DIR)/debug/millstream
	scripts/test-interop-uploads $(TARGET_DIR)/interop $(TARGET_DIR)/debug/millstream
	scripts/test-interop-acme $(TARGET_DIR)/interop $(TARGET_DIR)/debug/millstream

# Thousands of sessions, a million forged packets, ten minutes of drifting clocks: more than every day's run has time for.
test-full-size: console
	TEST_AT_FULL_SIZE=1 cargo test --locked --package millstream \
	    --test server -- rtc_security_churn:: rtc_security_injection:: bridge_once:: hls::a_thousand_short_streams
	$(DEBUG_SERVER)
	scripts/test-interop-rtc --prepare $(TARGET_DIR)/interop
	scripts/test-interop-bridge --full-size --only 'ten minutes' $(TARGET_DIR)/interop $(TARGET_DIR)/debug/millstream

# The debug build is traced as it is; nothing in the server knows of it. x86-64 Linux.
test-walks: console
	$(DEBUG_SERVER)
	scripts/house check --binaries $(TARGET_DIR)/debug

test-browser:
	$(DEBUG_SERVER)
	scripts/test-console $(TARGET_DIR)/debug/millstream

# The server embeds web/dist, so the console is built before any Rust.
console: web/dist/index.html

web/dist/index.html: $(CONSOLE_SOURCES)
	scripts/setup build
	cd web && npm run build
	touch $@

# Packages that are no members of the workspace: tools, and what links or benchmarks things the product must not depend on.
OTHER_PACKAGES := fuzz crates/srtp/compare crates/relay/bench libs/ssrc-map/bench libs/group-send/bench libs/msgpack-array/bench \
    libs/msgpack-array/python libs/range-reader/bench libs/range-reader/python libs/counts

fmt:
	cargo fmt --all --check
	for package in $(OTHER_PACKAGES); do cargo fmt --manifest-path $$package/Cargo.toml --check; done

lint: console fmt
	$(MAKE) one-crypto-provider
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --workspace --features transcode/fdk-aac --test transcode --locked -- -D warnings
	cargo clippy --package group-send --package msgpack-array --locked -- -D warnings
	for package in $(filter-out fuzz,$(OTHER_PACKAGES)); do cargo clippy --manifest-path $$package/Cargo.toml \
	    --target-dir $(TARGET_DIR) --all-targets --locked -- -D warnings || exit 1; done

# What the benchmarks of SRTP compare with: 180 crates that nothing else needs.
lint-contenders: console
	cargo clippy --manifest-path crates/srtp/compare/Cargo.toml --target-dir $(TARGET_DIR) --all-targets --all-features \
	    --locked -- -D warnings

# For what the server is built for, as in deny.toml: quinn has another provider on WebAssembly.
one-crypto-provider:
	@for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do \
	    tree=$$(cargo tree --workspace --all-features --target $$target --prefix none --locked); \
	    ! grep -E '^(ring|openssl|openssl-sys|native-tls) v' <<<"$$tree" || exit 1; \
	done

# A binary is named as its library, and cargo leaves those out in any case. Examples, because with them dependencies have the
# features that `make lint` has checked them with.
docs: console
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --lib --examples --locked

# The nightly compiler says which feature an item is of.
docs-rs:
	for library in $(LIBRARIES); do RUSTDOCFLAGS='--cfg docsrs -D warnings' \
	    cargo +nightly doc --no-deps --locked --all-features --package $$library || exit 1; done

deny:
	@command -v cargo-deny >/dev/null || { echo 'make deny: cargo-deny is missing: cargo install --locked cargo-deny' >&2; exit 1; }
	cargo deny --all-features check bans licenses sources
	cargo deny --all-features check advisories

# Vector code for a CPU that this machine does not have; scripts/setup installs what it takes. Also without std.
neon: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
neon: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := qemu-aarch64 -L /usr/aarch64-linux-gnu
neon:
	cargo check --locked --package ssrc-map --package msgpack-array --no-default-features --target aarch64-unknown-linux-gnu || \
	    { echo 'make neon: if the target is missing: rustup target add aarch64-unknown-linux-gnu' >&2; exit 1; }
	@for tool in aarch64-linux-gnu-gcc qemu-aarch64; do command -v $$tool >/dev/null || \
	    { echo "make neon: $$tool is missing: scripts/setup, or apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2; exit 1; }; done
	cargo test --locked --package ssrc-map --lib --tests --target aarch64-unknown-linux-gnu
	cargo test --locked --package msgpack-array --all-features --lib --tests --target aarch64-unknown-linux-gnu

# Names what it leaves out where the compiler has no WebAssembly targets: distributors' compilers may not.
wasm:
	scripts/test-msgpack-array-wasm

# Compiled, not run: systems other than Linux send and receive one datagram at a time, and are asked less of a socket that a
# remote file comes through. The C code of its TLS is not compiled for them; see the script.
portable:
	@for target in $(PORTABLE_TARGETS); do \
	    rustc --print target-libdir --target $$target | xargs test -d || \
	        { echo "make portable: the target is missing: rustup target add $$target" >&2; exit 1; }; \
	    for features in '' --all-features; do \
	        RUSTFLAGS='-D warnings' cargo check --locked --package group-send --target $$target $$features || exit 1; \
	    done; \
	    name=$$(tr - _ <<<$$target); \
	    env CC_$$name=$(CURDIR)/scripts/compiler-for-checks AR_$$name=$(CURDIR)/scripts/compiler-for-checks SDKROOT=/ \
	        RUSTFLAGS='-D warnings' cargo check --locked $(PORTABLE_READERS) --target $$target || exit 1; \
	done

PORTABLE_READERS := --package range-reader --package range-reader-c
PORTABLE_TARGETS := x86_64-apple-darwin x86_64-pc-windows-gnu

# Undefined behaviour that tests on the machine itself may survive: the code with `unsafe` in it, and the map on top. In the
# interpreter the CPU has what the compiler is told it has, so there is a run more for AVX2 and AVX-512. Minutes; it interprets
# in one thread, so with `make --jobs` several run at once.
MIRI := cargo +nightly miri test --locked --package
# The longest first.
MIRI_PARTS := miri-arrays miri-vectors miri-map miri-lanes miri-serde miri-map-c miri-arrays-c
.PHONY: miri-setup $(MIRI_PARTS)

miri: $(MIRI_PARTS)
$(MIRI_PARTS): miri-setup

# Its standard library is built once, before several need it at a time.
miri-setup:
	@cargo +nightly miri setup || \
	    { echo 'make miri: Miri is missing: rustup toolchain install nightly --component miri,rust-src' >&2; exit 1; }

miri-arrays:
	$(MIRI) msgpack-array --all-features --test msgpack-array -- callers_buffers functions_per_type
miri-vectors:
	RUSTFLAGS='-C target-feature=+avx2,+avx512f,+avx512bw,+avx512vl' $(MIRI) ssrc-map --lib lanes
miri-map:
	$(MIRI) ssrc-map --test ssrc-map naive_twin
miri-lanes:
	$(MIRI) ssrc-map --lib lanes
miri-serde:
	$(MIRI) msgpack-array --all-features --test msgpack-array -- serde_documents::bin_and serde_documents::u8_is
miri-map-c:
	$(MIRI) ssrc-map-c --lib
miri-arrays-c:
	$(MIRI) msgpack-array-c --lib

# Each parser in turn; new inputs stay in fuzz/corpus, crashes in fuzz/artifacts.
fuzz:
	@cargo fuzz --version >/dev/null 2>&1 || { echo 'make fuzz: cargo-fuzz is missing: cargo install --locked cargo-fuzz' >&2; exit 1; }
	for target in $$(cargo +nightly fuzz list); do \
	    cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS) -timeout=10; \
	done

SEEDS ?= 200
FIRST ?= 0
SEED ?=

sim:
	cargo run --profile sim --quiet --locked --package sim -- \
	    $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --first $(FIRST)) $(ARGS)

# Three servers, twelve streams of 200 kbit/s and 114 players of all kinds, all there for a minute, on one core.
sim-speed:
	cargo run --profile sim --quiet --locked --package sim -- --load --seeds 3 --threads 1

sim-mutants:
	scripts/sim-mutants $(ARGS)

house:
	scripts/house $(ARGS)

typos:
	@command -v typos >/dev/null || { echo 'make typos: typos is missing: cargo install --locked typos-cli, or pip install typos' >&2; exit 1; }
	typos

# Against the last release of each library; one that was never released has nothing to be compared with.
LIBRARIES := group-send msgpack-array range-reader srtp ssrc-map

semver:
	@cargo semver-checks --version >/dev/null 2>&1 || \
	    { echo 'make semver: cargo-semver-checks is missing: cargo install --locked cargo-semver-checks' >&2; exit 1; }
	@for library in $(LIBRARIES); do \
	    tag=$$(git tag --list "$$library-v*" --sort=-version:refname | head -1); \
	    if [ -z "$$tag" ]; then echo "make semver: $$library has no tag $$library-v* yet"; continue; fi; \
	    cargo semver-checks --package $$library --baseline-rev $$tag || exit 1; \
	done

# Of the tests that need no other programs. The report is a page; COVERAGE=--summary-only prints a table.
COVERAGE ?= --html

coverage: console
	@cargo llvm-cov --version >/dev/null 2>&1 || \
	    { echo 'make coverage: cargo-llvm-cov is missing: cargo install --locked cargo-llvm-cov; rustup component add llvm-tools' >&2; exit 1; }
	cargo llvm-cov --workspace --locked $(COVERAGE)

bench:
	scripts/setup
	scripts/bench rtmp-players $(ARGS)

# Another profile of Cargo.toml than release: PROFILE=NAME.
PROFILE ?= release

deb: console
	@command -v cargo-deb >/dev/null || { echo 'make deb: cargo-deb is missing: cargo install --locked cargo-deb' >&2; exit 1; }
	PROFILE=$(PROFILE) scripts/build-release
	scripts/make-manuals $(TARGET_DIR)/$(PROFILE)/millstream $(TARGET_DIR)/$(PROFILE)/package
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} \
	    cargo deb --locked --package millstream --no-build --profile $(PROFILE)

# Registries are asked for dependencies and tools. ONLY=crates, c, python or npm.
packages:
	scripts/make-packages

sbom:
	@command -v cargo-cyclonedx >/dev/null || \
	    { echo 'make sbom: cargo-cyclonedx is missing: cargo install --locked cargo-cyclonedx' >&2; exit 1; }
	scripts/make-sbom $(TARGET_DIR)/millstream.cdx.json

# Two builds of what is committed, in other folders.
reproducible: console
	PROFILE=$(PROFILE) scripts/reproducible

lint-deploy:
	scripts/lint-deploy

# Loopback only, and a tenth of a core for the server; the machine may do other things meanwhile.
soak:
	scripts/soak $(ARGS)

clean:
	cargo clean
	rm -rf web/dist web/node_modules
