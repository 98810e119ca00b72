//! The Python package beside real servers: the tests of `bindings/python/tests`, each module in its
//! own interpreter, and the first use as docs/python.md shows it.

mod limits;

use std::process::Command;

use crate::common::python::python;
use crate::common::text;
use frs_engine::answer::{Field, LimitField};

/// Runs a module of tests. All of them must pass, and none may be left out.
#[track_caller]
fn run(module: &str) {
    let Some(python) = python("bindings/python/tests") else { return };
    run_with(python, module);
}

#[track_caller]
fn run_with(mut python: Command, module: &str) {
    let output = python.args(["-m", "unittest", module]).output().expect("python3 starts");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("\nRan "), "{said}{}", text(&output.stdout));
    if said.contains("skipped=") {
        frs_base::testing::skip(&said);
    }
}

// Shows: python.
#[test]
fn a_session_and_every_attribute_of_a_verdict() {
    run("test_session");
}

// Shows: python.
#[test]
fn each_error_has_its_class_its_word_and_a_text() {
    run("test_errors");
}

// Shows: python.
#[test]
fn threads_and_tasks_admit_exactly_what_is_allowed() {
    run("test_threads");
}

// Shows: python.
#[test]
fn a_client_attached_before_a_fork_works_after_it_and_under_gunicorn() {
    run("test_fork");
}

// Shows: forks.
#[test]
fn forks_beside_first_calls_leave_no_child_waiting() {
    run("test_forks");
}

// Shows: python.
#[test]
fn a_client_outlives_stops_kills_upgrades_and_its_files() {
    run("test_life");
}

#[test]
fn the_manual_and_the_example_do_what_they_show() {
    run("test_docs");
}

#[test]
fn the_types_have_each_field_of_an_answer() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/python/python/frs/_frs.pyi");
    let types = std::fs::read_to_string(path).expect("readable");
    for (class, names) in [("Verdict", &Field::NAMES[..]), ("Limit", &LimitField::NAMES)] {
        let class = types.split("@final").find(|part| part.contains(&format!("class {class}:")));
        for name in names {
            let getter = format!("def {}(self)", name.replace('-', "_"));
            assert!(class.is_some_and(|class| class.contains(&getter)), "{getter}");
        }
    }
}

#[test]
fn the_types_are_those_of_the_module() {
    run("test_types");
}

#[test]
fn the_wheel_serves_every_distribution_with_glibc_2_28() {
    run("test_wheel");
}
