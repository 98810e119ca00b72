//! Login protection: captcha on the third try, ban on the fifth.

use super::{HOUR, MINUTE, Stage, play, together};

fn try_at(account: &str, address: &str) -> String {
    together(&[&format!("login {account}"), &format!("login-address {address}")])
}

#[test]
fn captcha_on_the_third_try_and_ban_on_the_fifth() {
    play("login", |stage| {
        let alice = try_at("alice", "203.0.113.7");
        for (nth, action) in [(1, "!action"), (2, "!action"), (3, "action=captcha")] {
            let account = format!("limited=false used={nth} max=4 remaining={} {action}", 4 - nth);
            let address = format!("limited=false used={nth} max=20 !action");
            stage.update(&alice).expect(&[&account, &address]);
        }
        // The page queries what to show. That changes nothing.
        stage.get("/query?biz=login&key=alice", 200, "limited=false used=3 action=captcha");
        stage.update(&alice).expect(&["used=4 remaining=0 action=captcha", "used=4"]);

        let ban = "limited=true limit=2 used=4 banned=true retry=1800000";
        stage.update(&alice).expect_refused(&[ban, "limited=false used=4 !banned"]);
        let banned = "limited=true limit=2 used=4 banned=true retry=1..=1800000";
        stage.update(&alice).expect_refused(&[banned, "limited=false used=4"]);
        stage.update(&try_at("alice", "192.0.2.1")).expect_refused(&[banned, "used=0"]);
        stage.get("/query?biz=login&key=alice&deny=403", 403, banned);

        let after = stage.later(30 * MINUTE, "login", "alice");
        assert!(!after.limited && !after.banned && after.advised == 0, "{after:?}");
        assert_eq!(after.figures.used, 0);
    });
}

#[test]
fn a_success_gives_its_use_back() {
    play("login", |stage| {
        let bob = try_at("bob", "203.0.113.8");
        for _ in 0..2 {
            stage.update(&bob);
        }
        stage.update(&bob).expect(&["used=3 action=captcha", "used=3"]);
        let back = together(&["login bob -1", "login-address 203.0.113.8 -1"]);
        stage.update(&back).expect(&["limited=false used=2 !action", "used=2"]);
    });
}

#[test]
fn an_address_that_tries_many_accounts_is_banned_and_locks_nobody_out() {
    play("login", |stage| {
        for nth in 1..=20 {
            let one = try_at(&format!("user{nth}"), "203.0.113.9");
            let address = format!("limited=false used={nth}");
            stage.update(&one).expect(&["limited=false used=1", &address]);
        }
        let victim = try_at("victim", "203.0.113.9");
        for _ in 0..10 {
            let address = "limited=true used=20 banned=true retry=1..=3600000";
            stage.update(&victim).expect_refused(&["limited=false used=0", address]);
        }
        assert!(!stage.later(HOUR, "login-address", "203.0.113.9").limited);
        offices_are_let_through(stage);
    });
}

fn offices_are_let_through(stage: &mut Stage) {
    for nth in 1..=30 {
        let one = try_at(&format!("worker{nth}"), "198.51.100.20");
        let items = ["limited=false used=1", "limited=false list=allow !used"];
        stage.update(&one).expect(&items);
    }
}
