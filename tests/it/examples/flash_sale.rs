//! Flash sales: 10,000 in all, one for each user of a sale, three for each user in a calendar day.

use super::{DAY, Stage, play_in_a_day, together};
use crate::common::items::Response;

/// Orders one, or returns one.
fn order(stage: &mut Stage, sale: &str, user: &str, count: i32) -> Response {
    let rows = [format!("sale-{sale} {user} {count}"), format!("buyer-day {user} {count}")];
    stage.update(&together(&[&rows[0], &rows[1]]))
}

fn play(story: impl Fn(&mut Stage)) {
    play_in_a_day("flash-sale", "Asia/Shanghai", 0, story);
}

#[test]
fn one_for_each_user_and_three_a_day() {
    play(|stage| {
        let own = "limited=false limit=2 used=1 max=1 remaining=0 !reset";
        order(stage, "phone", "alice", 1).expect(&[own, "used=1 max=3 remaining=2"]);
        // The user can never order again, so there is no time to wait for.
        let again = "limited=true limit=2 used=1 max=1 remaining=0 !retry";
        order(stage, "phone", "alice", 1).expect_refused(&[again, "limited=false used=1"]);

        order(stage, "tv", "alice", 1).expect(&[own, "used=2 remaining=1"]);
        order(stage, "watch", "alice", 1).expect(&[own, "used=3 remaining=0"]);
        let day = "limited=true used=3 max=3 remaining=0 reset=1..=86400000 retry=1..=86400000";
        order(stage, "bag", "alice", 1).expect_refused(&["limited=false used=0 reset=0", day]);

        // The phone is returned on the same day, so the user can order the bag instead.
        order(stage, "phone", "alice", -1).expect(&["limited=false used=0", "used=2"]);
        order(stage, "bag", "alice", 1).expect(&[own, "used=3"]);

        assert_eq!(stage.later(DAY, "buyer-day", "alice").figures.used, 0);
        let bought = stage.later(DAY, "sale-bag", "alice");
        assert!(bought.limited && bought.retry_ms.is_none(), "{bought:?}");
    });
}

#[test]
fn the_last_piece_is_sold_once() {
    play(|stage| {
        // Reports the sales of the shops.
        let shops = r#"<request>
            <item biz="sale-phone" key="shops" count="9999" force="true"/></request>"#;
        stage.update(shops);
        order(stage, "phone", "bob", 1)
            .expect(&["limited=false limit=1 used=10000 max=10000 remaining=0", "used=1"]);
        let sold = "limited=true limit=1 used=10000 max=10000 remaining=0 !retry";
        for user in ["carol", "dave", "erin"] {
            order(stage, "phone", user, 1).expect_refused(&[sold, "limited=false used=0"]);
        }
        // An unpaid order is free for the next user.
        order(stage, "phone", "bob", -1).expect(&["limited=false", "used=0"]);
        order(stage, "phone", "carol", 1).expect(&["limited=false", "used=1"]);
        order(stage, "phone", "bob", 1).expect_refused(&[sold, "used=0"]);
        // Other sales have counts of their own.
        order(stage, "tv", "bob", 1).expect(&["limited=false", "used=1"]);
    });
}
