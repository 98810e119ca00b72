//! In-flight limits: a job holds its places until it leaves, or no longer renews them.

use super::{MINUTE, SECOND, Stage, play};
use crate::common::items::Response;

/// Asks for the places of a job. `count` is what it holds from now on.
fn ask(stage: &mut Stage, customer: &str, job: &str, count: u32) -> Response {
    let item = |biz: &str, key: &str| {
        format!("<item biz=\"{biz}\" key=\"{key}\" hold=\"{job}\" count=\"{count}\"/>")
    };
    let items = item("exports", customer) + &item("all-exports", "all");
    stage.update(&format!("<request atomic=\"true\">{items}</request>"))
}

fn enter(stage: &mut Stage, customer: &str, job: &str) -> Response {
    ask(stage, customer, job, 1)
}

fn leave(stage: &mut Stage, customer: &str, job: &str) -> Response {
    ask(stage, customer, job, 0)
}

#[test]
fn three_at_once_and_a_place_when_one_has_left() {
    play("in-flight", |stage| {
        for nth in 1..=3 {
            let own = format!("limited=false limit=1 used={nth} max=3 remaining={}", 3 - nth);
            let all = format!("limited=false used={nth} max=8");
            enter(stage, "acme", &format!("job-{nth}")).expect(&[&own, &all]);
        }
        let full = "limited=true limit=1 used=3 max=3 remaining=0 retry=1..=60000";
        enter(stage, "acme", "job-4").expect_refused(&[full, "limited=false used=3"]);
        leave(stage, "acme", "job-1").expect(&["limited=false used=2 remaining=1", "used=2"]);
        enter(stage, "acme", "job-4").expect(&["limited=false used=3", "used=3"]);
        // A renewal charges nothing and is not refused.
        enter(stage, "acme", "job-2").expect(&["limited=false used=3", "limited=false used=3"]);
        // Leaving twice gives nothing away that another job holds.
        for used in ["2", "2"] {
            let left = format!("limited=false used={used}");
            leave(stage, "acme", "job-2").expect(&[&left, &left]);
        }
        for (job, used) in [("job-3", 1), ("job-4", 0)] {
            let left = format!("limited=false used={used}");
            leave(stage, "acme", job).expect(&[&left, &left]);
        }
    });
}

#[test]
fn eight_for_all_customers_together() {
    play("in-flight", |stage| {
        for (customer, times) in [("a", 3), ("b", 3), ("c", 2)] {
            for nth in 0..times {
                let entered = enter(stage, customer, &format!("{customer}{nth}"));
                entered.expect(&["limited=false", "limited=false"]);
            }
        }
        // Customer c has a place of its own left, but no place is left in total.
        let full = "limited=true limit=1 used=8 max=8 remaining=0 retry=1..=60000";
        enter(stage, "c", "c2").expect_refused(&["limited=false used=2", full]);
        leave(stage, "a", "a0").expect(&["used=2", "used=7"]);
        enter(stage, "c", "c2").expect(&["limited=false used=3", "limited=false used=8"]);
    });
}

#[test]
fn the_places_of_jobs_that_died_come_back() {
    play("in-flight", |stage| {
        for nth in 0..3 {
            enter(stage, "acme", &format!("job-{nth}")).expect(&["limited=false", "limited=false"]);
        }
        assert!(stage.later(50 * SECOND, "exports", "acme").limited);
        for (biz, key) in [("exports", "acme"), ("all-exports", "all")] {
            let after = stage.later(MINUTE + SECOND, biz, key);
            assert!(!after.limited && after.figures.used == 0, "{after:?}");
        }
    });
}
