//! An open platform: 10,000 an hour for each address and application; 1,000 an hour and 300 of debt
//! for each application, user and interface. It counts an application's calls, its interfaces'
//! calls and its users by day, and keeps the days before.

use super::{DAY, HOUR, Stage, play_in_a_day, together};
use crate::common::items::Response;

/// A call of `count` parts.
fn call(stage: &mut Stage, address: &str, user: &str, count: u32) -> Response {
    stage.update(&together(&[
        &format!("address-app {address}|app7 {count}"),
        &format!("app-user-api app7|{user}|orders.list {count}"),
        &format!("app-day app7 {count}"),
        &format!("app-interface-day app7|orders.list {count}"),
        &format!("app-users-day app7 1 {user}"),
    ]))
}

const ADDRESS: &str = "203.0.113.7";

#[test]
fn debt_is_lent_and_taken_off_the_next_hour() {
    play_in_a_day("open-platform", "Asia/Shanghai", 0, |stage| {
        call(stage, ADDRESS, "alice", 1200).expect(&[
            "limited=false used=1200 max=10000 remaining=8800",
            "limited=false used=1200 max=1000 remaining=100",
            "limited=false used=1200 max=0 remaining=0",
            "limited=false used=1200 max=0 remaining=0",
            "limited=false used=1 max=0 remaining=0",
        ]);
        // One part too many: no limit is charged, and nothing is billed.
        let user = "limited=true used=1200 remaining=100 retry=3000000..=3600000";
        let others = "limited=false used=1200";
        call(stage, ADDRESS, "alice", 101).expect_refused(&[
            others,
            user,
            others,
            others,
            "limited=false used=1",
        ]);
        call(stage, ADDRESS, "alice", 100).expect(&[
            "used=1300",
            "used=1300 remaining=0",
            "used=1300",
            "used=1300",
            "used=1",
        ]);
        let full = "limited=true used=1300 retry=3000000..=3600000";
        call(stage, ADDRESS, "alice", 1).expect_refused(&[
            "used=1300",
            full,
            "used=1300",
            "used=1300",
            "used=1",
        ]);

        // 1,000 fit after one turn, one more only after two, more than 1,300 never.
        let asked = "/query?biz=app-user-api&key=app7%7Calice%7Corders.list&count=";
        for (count, retry) in
            [(1000, "retry=3000000..=3600000"), (1001, "retry=6600000..=7200000"), (1301, "!retry")]
        {
            stage.get(&format!("{asked}{count}"), 429, &format!("limited=true {retry}"));
        }
        let user = "app7|alice|orders.list";
        let next = stage.later(HOUR, "app-user-api", user);
        assert_eq!((next.figures.used, next.figures.remaining), (300, 1000));
        assert_eq!(stage.later(2 * HOUR, "app-user-api", user).figures.used, 0);
    });
}

#[test]
fn an_address_is_full_for_all_users_of_the_application() {
    play_in_a_day("open-platform", "Asia/Shanghai", 0, |stage| {
        for nth in 1..=8 {
            let used = format!("limited=false used={}", nth * 1250);
            let user = format!("user{nth}");
            // An estimate: two users may collide.
            let users = format!("used={}..={nth}", nth - 1);
            call(stage, ADDRESS, &user, 1250).expect(&[&used, "used=1250", &used, &used, &users]);
        }
        let address = "limited=true used=10000 remaining=0 retry=3000000..=3600000";
        call(stage, ADDRESS, "late", 1).expect_refused(&[
            address,
            "limited=false used=0",
            "limited=false used=10000",
            "limited=false used=10000",
            "limited=false used=7..=8",
        ]);
        call(stage, "203.0.113.8", "late", 1).expect(&[
            "used=1",
            "used=1",
            "used=10001",
            "used=10001",
            "used=8..=9",
        ]);

        stage.get("/query?biz=app-day&key=app7", 200, "used=10001 reset=1..=86400000");
        assert_eq!(stage.later(DAY, "app-day", "app7").figures.used, 0);
    });
}

#[test]
fn a_report_is_one_look_up() {
    play_in_a_day("open-platform", "Asia/Shanghai", 0, |stage| {
        for (days, count) in [(31, 9), (30, 4), (3, 1204), (1, 998)] {
            stage.earlier(days * DAY, "app-day", "app7", count);
        }
        for (days, times) in [(2, 4), (1, 2)] {
            (0..times).for_each(|_| stage.visited(days * DAY, "app-users-day", "app7", 7));
        }
        call(stage, ADDRESS, "alice", 7)
            .expect(&["used=7", "used=7", "used=7", "used=7", "used=1"]);
        let answer = stage.raw("/query?biz=app-day&key=app7&detail=true");
        let zeros = "0 ".repeat(26);
        let limit = "index=\"1\" policy=\"count\" used=\"7\" max=\"0\" remaining=\"0\"";
        assert!(answer.body.contains(limit), "{answer:?}");
        let history = format!("history=\"998 0 1204 {zeros}4\"");
        assert!(answer.body.contains(&history), "{history} in {answer:?}");
        // An interface without calls before today has no earlier days.
        let answer = stage.raw("/query?biz=app-interface-day&key=app7%7Corders.list&detail=true");
        assert!(answer.body.contains("history=\"\""), "{answer:?}");
        call(stage, ADDRESS, "bob", 1).expect(&[
            "used=8",
            "used=1",
            "used=8",
            "used=8",
            "used=1..=2",
        ]);
        let answer = stage.raw("/query?biz=app-users-day&key=app7&detail=true");
        assert!(answer.body.contains("history=\"1 1\""), "{answer:?}");
        assert!(answer.body.contains("standard-error=\"0.016\""), "{answer:?}");
    });
}

#[test]
fn users_of_a_larger_customer_have_more() {
    play_in_a_day("open-platform", "Asia/Shanghai", 0, |stage| {
        let asked = "/query?biz=app-user-api&key=app9%7Cbob%7Corders.list&count=5300";
        stage.get(asked, 200, "limited=false used=0 max=5000 remaining=5300");
    });
}
