//! The package frs-limits beside real servers: the tests of `bindings/frs-limits/tests`, each
//! module in its own interpreter.

use super::run_with;
use crate::common::python::limits;

#[track_caller]
fn run(module: &str) {
    let Some(mut python) = limits() else { return };
    // redis-py warns of connections of asyncio that a test leaves to the collector.
    python.args(["-W", "ignore::ResourceWarning"]);
    run_with(python, module);
}

// Shows: limits.
#[test]
fn three_strategies_decide_over_each_kind_of_address() {
    run("test_storage");
}

// Shows: limits.
#[test]
fn a_server_that_is_away_wrong_or_killed_admits_nothing_twice() {
    run("test_down");
}

// Shows: limits.
#[test]
fn the_same_traffic_is_decided_as_over_redis() {
    run("test_equal");
}

// Shows: limits.
#[test]
fn flask_limiter_slowapi_and_fastapi_decide_as_over_redis() {
    run("test_programs");
}

// Shows: limits.
#[test]
fn the_own_tests_of_limits_pass_for_threads() {
    run("test_own_of_limits.OwnOfLimits.test_those_of_threads");
}

// Shows: limits.
#[test]
fn the_own_tests_of_limits_pass_for_asyncio() {
    run("test_own_of_limits.OwnOfLimits.test_those_of_asyncio");
}

#[test]
fn the_code_of_its_manual_runs() {
    run("test_docs");
}

#[test]
fn its_types_pass_a_strict_check() {
    run("test_types");
}
