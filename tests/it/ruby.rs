//! The gem `frs-rack` beside real servers: the tests of `bindings/frs-rack/test`, each file in its
//! own Ruby.
//!
//! Needs ruby, and the gems rack-attack and redis.

use std::path::Path;
use std::process::Command;

use crate::common::{needs, text};

/// Runs a file of tests. All of them must pass. What one of them leaves out is reported.
#[track_caller]
fn run(file: &str) {
    let gems = "require 'rack/attack'; require 'redis'; require 'minitest'";
    let Some(found) = needs::output(Command::new("ruby").args(["-e", gems])) else { return };
    if !found.status.success() {
        return needs::skip("the gems rack-attack, redis and minitest are not installed");
    }
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/frs-rack");
    let mut ruby = Command::new("ruby");
    ruby.arg("-w").arg(file).current_dir(Path::new(package).join("test"));
    let output = ruby.env("FRS", env!("CARGO_BIN_EXE_frs")).output().expect("it was there");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains(" 0 failures, 0 errors, "), "no summary: {said}");
    if !said.contains(", 0 skips") {
        needs::skip(&said);
    }
}

// Shows: limiter-libraries.
#[test]
fn rack_attack_decides_as_over_redis() {
    run("test_throttle.rb");
}

// Shows: limiter-libraries.
#[test]
fn rack_attack_outlives_servers_that_are_away() {
    run("test_failures.rb");
}

#[test]
fn the_gem_has_all_its_files() {
    run("test_gem.rb");
}

#[test]
fn the_program_of_ruby_runs_as_written() {
    run("test_docs.rb");
}
