//! The npm package `frs-express` beside real servers: the tests of `bindings/frs-express/test`.
//! Each file of tests has a Node of its own.
//!
//! Needs node and npm. FRS_NODE_LIMITERS names the folder where `.ci/run` has installed the
//! libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{needs, text};

/// Runs a file of tests. All of them must pass. What one of them leaves out is reported.
#[track_caller]
fn run(file: &str) {
    let Some(libraries) = std::env::var_os("FRS_NODE_LIMITERS").map(PathBuf::from) else {
        return needs::skip("FRS_NODE_LIMITERS is not set: .ci/run installs the libraries of Node");
    };
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/frs-express");
    let mut node = Command::new("node");
    node.args(["--test-reporter=tap", file]).current_dir(Path::new(package).join("test"));
    node.env("NODE_PATH", libraries.join("node_modules")).env("FRS", env!("CARGO_BIN_EXE_frs"));
    let Some(output) = needs::output(&mut node) else { return };
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("\n# fail 0\n"), "no summary: {said}");
    for line in said.lines().filter(|line| line.contains(" # SKIP ")) {
        needs::skip(line);
    }
}

// Shows: limiter-libraries.
#[test]
fn express_rate_limit_decides_as_over_redis() {
    run("express.test.js");
}

// Shows: limiter-libraries.
#[test]
fn rate_limiter_flexible_decides_as_over_redis() {
    run("flexible.test.js");
}

// Shows: limiter-libraries.
#[test]
fn fastify_rate_limit_decides_as_over_redis() {
    run("fastify.test.js");
}

#[test]
fn the_package_of_node_is_packed_and_typed() {
    run("pack.test.js");
}

#[test]
fn the_programs_of_node_run_as_written() {
    run("docs.test.js");
}
