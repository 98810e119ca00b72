# The commands of the project; `just` lists them.
default:
    @just --list --unsorted

# all tests, doc tests included
test *args:
    cargo test {{ args }}

# formatting, clippy, licences and sources of dependencies
lint:
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings
    cargo deny check --hide-inclusion-graph bans licenses sources

# known faults of dependencies; fetches the advisory database
audit:
    cargo deny check advisories

# the API documentation, without a warning
doc *args:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps {{ args }}

# cuts the power 1,000 times in a loaded run, and restores groups from their checkpoints
checkpoints:
    FRS_CHECKPOINT_CUTS=1000 cargo test --release -p frs-engine-crash --lib store::checkpoint -- --nocapture

# loom's model of the store: semaphore, commit, recovery, with one switch of threads more than in CI
loom preemptions="4":
    LOOM_MAX_PREEMPTIONS={{ preemptions }} RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p frs-store --lib model

# the simulation: processes that die at any store, by seeds: just simulate 0..1000000, just simulate 12345
simulate seeds="0..1000000":
    FRS_SIMULATE={{ seeds }} cargo test --profile simulate --target-dir target/simulate -p frs-engine-crash --lib \
        simulation -- --nocapture

# machines that mirror records: losses, old files, cuts, overruns, clocks apart, by seeds of all perils: just mirrored 0..100000
mirrored seeds="0..100000":
    FRS_MIRRORED={{ seeds }} cargo test --profile simulate --target-dir target/simulate -p frs-cluster --lib \
        mirrored -- --nocapture

# losses of a machine that mirrors its records, under load, beside the bound of what they cost
losses losses="200":
    FRS_LOSSES={{ losses }} cargo test --test it mirror::losses -- --nocapture

# the policies and the calls against their models, millions of steps with overflow checks: just model 1000000
model cases="100000":
    PROPTEST_CASES={{ cases }} CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        cargo test --release --target-dir target/model --test it -- limits::model limits::calls

# estimates of different members against true counts: fewer sketches than these miss the bound by chance
distinct members="10000000" sketches="1000":
    FRS_DISTINCT={{ members }} FRS_DISTINCT_SKETCHES={{ sketches }} \
        cargo test --release --target-dir target/model -p frs-limit --lib sketch -- --nocapture

# idle connections over TLS, and the memory that each one takes: just idle-tls 10000
idle-tls connections="10000":
    FRS_IDLE_TLS={{ connections }} cargo test --test it tls::bounds::idle_connections_stay -- --nocapture

# the picture of the dashboard in docs/, of a server after five minutes of traffic
picture:
    FRS_PICTURE="$PWD/docs/dashboard.png" cargo test --test it dashboard::picture -- --ignored

# a month of an open platform in fast motion, with so many applications; needs libfaketime
days apps="10000":
    FRS_APPS={{ apps }} cargo test --release --test it days:: -- --nocapture

# the rules of leases over all that can happen to hosts, network and ledger, so many states of each world
model-lease states="2000000":
    FRS_MODEL_LEASE={{ states }} CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        cargo test --release --target-dir target/model --test it lease::checker -- --nocapture

# couriers of several hosts over random schedules, so many seeds of each
model-courier seeds="2000":
    FRS_COURIER_SEEDS={{ seeds }} CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        cargo test --release --target-dir target/model --test it courier::simulation -- --nocapture

# internal benches (criterion); arguments select: just bench crc
bench *args:
    cargo bench -p frs-server -- {{ args }}

# frs against a bare loop, memcached and Redis, on real sockets; needs wrk and memcached, or Redis: just bench-serve --only resp; against a version before: --only versions --before PROGRAM
bench-serve *args:
    cargo build -p frs-server --profile dist --example bare_loop
    cargo bench -p frs-server --profile dist --bench serve -- {{ args }}

# what the profile `release` costs beside `dist`, in turns: just bench-release --rounds 9 --seconds 2
bench-release *args:
    cargo build -p frs-server --release --bin frs
    cargo bench -p frs-server --profile dist --bench serve -- --only versions \
        --before "${CARGO_TARGET_DIR:-$PWD/target}/release/frs" {{ args }}

# one Update from C and from Rust, in turns; needs cc, and valgrind for the instructions
bench-c:
    cargo build --profile dist -p frs-c
    cargo bench -p frs-server --profile dist --bench c

# programs that share a group, more of them than there are processors: just bench-contention --processes 2,64
bench-contention *args:
    cargo bench -p frs-server --profile dist --bench contention -- {{ args }}

# a large group: filled, copied to the disk, started again, grown: just bench-large --keys 100000000 --rate 100000
bench-large *args:
    cargo build --profile dist --bin frs --bin frs-load
    cargo bench -p frs-server --profile dist --bench large -- {{ args }}

# instructions of an item through the library, which a busy machine does not change; needs valgrind: just bench-instructions atomic
bench-instructions *args:
    cargo bench -p frs-server --profile dist --bench instructions --bench call_instructions -- {{ args }}

# limits of three machines on a real Redis Cluster: just bench-cluster local --max 100, script, ledger, unshared; needs redis-server
bench-cluster *args:
    cargo build --profile dist --bin frs --bin frs-load
    cargo bench -p frs-server --profile dist --bench cluster -- {{ args }}

# Miri: the store over boxed words, under both borrow models; needs a nightly toolchain with miri and rust-src
miri *args="":
    MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=4 RUST_TEST_THREADS=1 \
        cargo +nightly miri test --target-dir target/miri -p frs-store --lib {{ args }}
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows" PROPTEST_CASES=4 RUST_TEST_THREADS=1 \
        cargo +nightly miri test --target-dir target/miri -p frs-store --lib {{ args }}

# one fuzz target, or all, for some seconds each: just fuzz image 3600; needs cargo-fuzz and a nightly toolchain
fuzz target="all" seconds="60":
    .ci/fuzz {{ target }} {{ seconds }}

# makes tests/corpus from what fuzzing has found: the smallest inputs that reach as much code
corpus:
    .ci/corpus

# programs that share a small group and are killed at any moment: just torture 10000
torture kills="10000":
    FRS_TORTURE_KILLS={{ kills }} cargo test --release --test it torture -- --nocapture

# retries and holds over connections that are cut, while workers are killed, so many seconds: just storm 300
storm seconds="300":
    FRS_STORM={{ seconds }} cargo test --test it storm:: -- --nocapture

# so many random calls of Redis' commands over registers, in each version of RESP, to redis-server and frs: just registers 1000000; needs redis-server
registers calls="100000":
    FRS_REGISTER_CALLS={{ calls }} cargo test --test it registers::differential -- --nocapture

# reloads under load; none may leave anything behind: just reloads 9999
reloads times="999":
    FRS_RELOADS={{ times }} cargo test --test it process::reloads -- --nocapture

# faults of all kinds while some machines share limits over a real cluster: just faults-cluster 1800 7 2; needs redis-server
faults-cluster seconds="1800" seed="1" hosts="3":
    FRS_FAULTS={{ seconds }}:{{ seed }}:{{ hosts }} cargo test --test it cluster::campaign -- --nocapture

# forks beside threads that attach, in Rust, C and Python, so many children each: just forks 10000
forks count="10000":
    FRS_FORKS={{ count }} cargo test --test library_fork
    FRS_FORKS={{ count }} cargo test --test it forks -- --nocapture

# the Python packages, for their tests, and what they cost beside Rust: just python bench, and beside Redis: just python bench-limits 9; needs python3 with pip
python *args:
    .ci/python {{ args }}

# the Debian packages, built and tried on an overlay of this machine; needs cargo-deb, python3 with pip, and root
deb:
    .ci/deb

# the image, built by buildah with this machine's toolchain, and run as process 1; needs root
image:
    .ci/image

# what the continuous integration runs
ci:
    .ci/run
