//! The library's examples, run as a reader would run them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::setup_of;
use crate::common::text;
use crate::common::tools::built;

const MAP: &str = include_str!("../../../conf/map.xml");

/// An example's program.
pub(super) fn example(name: &str) -> PathBuf {
    built(&format!("examples/{name}"), &["--package", "frs", "--example", name])
}

fn run(name: &str, data: &Path, input: &str) -> Output {
    let mut command = Command::new(example(name));
    let piped =
        command.arg(data).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it starts");
    // The example may end without reading.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it ends")
}

#[test]
fn login_answers_each_user() {
    // Builds the example before the charged window begins.
    example("login");
    let setup = setup_of(MAP);
    let server = setup.start();
    server.client().charge("login", "alice", 3);
    let output = run("login", &setup.path("data"), "alice\nalice\nalice\n\nbob\n");
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && error.is_empty(), "{said}{error}");
    let lines: Vec<&str> = said.lines().collect();
    let [first, second, refused, bad, bob] = lines[..] else { panic!("{said}") };
    assert_eq!((first, second), ("alice: yes, 1 more", "alice: yes, 0 more"));
    assert!(refused.starts_with("alice: no, try again in "), "{said}");
    assert_eq!((bad, bob), ("\"\": not judged: bad-key", "bob: yes, 4 more"));
}

#[test]
fn order_makes_whole_orders_only() {
    let setup = setup_of(MAP);
    let server = setup.start();
    let output = run("order", &setup.path("data"), "");
    let (said, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && error.is_empty(), "{said}{error}");
    let customers = ["alice", "bob", "carol", "dave"];
    let expected: String = customers.map(|name| format!("{name}: 3 of 5 orders\n")).concat();
    assert_eq!(said, expected);
    let answer = server.client().get("/query?biz=sms&key=18829340004");
    assert_eq!(answer.attribute("used"), Some("3"), "{answer:?}");
}

#[test]
fn without_a_server_they_say_what_to_do() {
    let nothing = tempfile::tempdir().expect("a directory");
    for name in ["login", "order"] {
        let output = run(name, nothing.path(), "alice\n");
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""), "{error}");
        assert!(error.contains("no server runs on the data directory"), "{error}");
        assert!(error.contains("runtime.mmap"), "{error}");
        assert!(error.contains("`cargo run --release` starts a server"), "{error}");
    }
}
