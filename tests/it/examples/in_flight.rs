//! In-flight limits: a use is held until the user leaves, or for a bounded time.

use super::{MINUTE, Stage, play};

fn enter(stage: &mut Stage, customer: &str, status: u16, words: &str) {
    stage.get(&format!("/update?biz=exports&key={customer}"), status, words);
}

fn leave(stage: &mut Stage, customer: &str, words: &str) {
    stage.get(&format!("/update?biz=exports&key={customer}&count=-1"), 200, words);
}

#[test]
fn three_at_once_and_a_place_when_one_has_left() {
    play("in-flight", |stage| {
        for nth in 1..=3 {
            let words = format!("limited=false limit=1 used={nth} max=3 remaining={}", 3 - nth);
            enter(stage, "acme", 200, &words);
        }
        enter(stage, "acme", 429, "limited=true limit=1 used=3 retry=1700000..=1800000");
        leave(stage, "acme", "limited=false limit=1 used=2 remaining=1");
        enter(stage, "acme", 200, "limited=false used=3");
        enter(stage, "acme", 429, "limited=true used=3");
        for used in [2, 1, 0] {
            leave(stage, "acme", &format!("limited=false limit=1 used={used}"));
        }
        enter(stage, "acme", 200, "used=1");
    });
}

#[test]
fn eight_for_all_customers_together() {
    play("in-flight", |stage| {
        for (customer, times) in [("a", 3), ("b", 3), ("c", 2)] {
            (0..times).for_each(|_| enter(stage, customer, 200, "limited=false"));
        }
        // Customer c has a place of its own left, but no place is left in total.
        enter(stage, "c", 429, "limited=true limit=2 used=8 max=8 remaining=0 retry=1..=1800000");
        leave(stage, "a", "limited=false");
        enter(stage, "c", 200, "limited=false limit=1 used=3");
    });
}

#[test]
fn the_places_of_jobs_that_died_come_back() {
    play("in-flight", |stage| {
        (0..3).for_each(|_| enter(stage, "acme", 200, "limited=false"));
        assert!(stage.later(29 * MINUTE, "exports", "acme").limited);
        let after = stage.later(30 * MINUTE, "exports", "acme");
        assert!(!after.limited && after.figures.used == 0, "{after:?}");
    });
}
