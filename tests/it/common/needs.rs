//! The requirements of tests. If a requirement is missing, the test is skipped and reports its
//! name. With FRS_REQUIRE_ALL=1 the test fails instead.

use std::io::ErrorKind;
use std::process::{Child, Command, Output};

pub use frs_base::testing::skip;

/// Runs a program to its end. `None` if it is not installed.
#[track_caller]
pub fn output(command: &mut Command) -> Option<Output> {
    installed(command.output(), command)
}

/// Starts a program. `None` if it is not installed.
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

/// The programs of a cluster's nodes: the one in FRS_REDIS, or those of Redis and Valkey on this
/// machine. Reports a skip if there is none.
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
