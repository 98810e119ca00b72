//! Requirements of tests. If one is missing the test is skipped and reports its name. With
//! FRS_REQUIRE_ALL=1 it fails instead.

use std::io::{ErrorKind, Write};
use std::process::{Child, Command, Output};

/// Reports that this thread's test cannot run, and why.
#[track_caller]
pub fn skip(why: &str) {
    let all_must_run = std::env::var_os("FRS_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!all_must_run, "{why}");
    say_skipped(why);
}

/// Reports that this thread's test leaves out what this kernel cannot do. This never fails.
pub fn say_skipped(why: &str) {
    let thread = std::thread::current();
    // Not by a macro: the harness shows a macro's output for failed tests only.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// Runs a program to its end; none if it is not installed.
#[track_caller]
pub fn output(command: &mut Command) -> Option<Output> {
    installed(command.output(), command)
}

/// Starts a program; none if it is not installed.
#[track_caller]
pub fn spawn(command: &mut Command) -> Option<Child> {
    installed(command.spawn(), command)
}

#[track_caller]
fn installed<T>(result: std::io::Result<T>, command: &Command) -> Option<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(&format!("{} is not installed", command.get_program().display()));
            None
        }
        result => Some(result.expect("the program starts")),
    }
}

/// The programs of a cluster's nodes: what FRS_REDIS names, or those that this machine has of Redis
/// and Valkey. Where there is none, that is reported.
#[track_caller]
pub fn redis_servers() -> Vec<String> {
    let runs = |program: &String| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if let Ok(named) = std::env::var("FRS_REDIS") {
        assert!(runs(&named), "FRS_REDIS: {named} does not run");
        return vec![named];
    }
    let known = ["redis-server", "valkey-server"].map(str::to_owned);
    let found: Vec<_> = known.into_iter().filter(runs).collect();
    if found.is_empty() {
        skip("redis-server is not installed");
    }
    found
}
