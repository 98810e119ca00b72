//! The usage of frs-envoy: its version, and the status of wrong usage.
//!
//! A test that runs the program has cargo make it, so that `cargo test` builds nothing twice.

use std::process::{Command, Output};

fn run(argument: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_frs-envoy")).arg(argument).output().expect("it runs")
}

#[test]
fn a_version_is_told_and_wrong_usage_ends_with_2() {
    let told = run("--version");
    let version = concat!("frs-envoy ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&told.stdout), version);
    assert_eq!(told.status.code(), Some(0));
    assert_eq!(run("--nothing").status.code(), Some(2));
}
