//! The devices of an account, five at a time, and the cities of a day, with advice beyond a number.

use super::{DAY, Stage, play, play_in_a_day};

fn sign_in(stage: &mut Stage, account: &str, device: &str, status: u16, words: &str) {
    let target = format!("/update?biz=devices&key={account}&member={device}");
    stage.get(&target, status, words);
}

#[test]
fn the_sixth_device_is_refused_until_one_is_signed_out() {
    play("devices", |stage| {
        for nth in 1..=5 {
            let words = format!("limited=false used={nth} max=5 remaining={}", 5 - nth);
            sign_in(stage, "alice", &format!("device{nth}"), 200, &words);
        }
        sign_in(stage, "alice", "device6", 429, "limited=true used=5 remaining=0 !retry");
        sign_in(stage, "alice", "device3", 200, "limited=false used=5");
        let out = "/update?biz=devices&key=alice&member=device3&count=-1";
        stage.get(out, 200, "limited=false used=4");
        stage.get(out, 200, "limited=false used=4");
        sign_in(stage, "alice", "device6", 200, "limited=false used=5");
        // A Query of the account without a device.
        stage.get("/query?biz=devices&key=alice", 200, "limited=false used=5 remaining=0");
        for nth in 1..=10 {
            sign_in(stage, "family%7Cbob", &format!("device{nth}"), 200, "limited=false max=10");
        }
        sign_in(stage, "family%7Cbob", "device11", 429, "limited=true used=10");
    });
}

#[test]
fn many_cities_in_a_day_ask_for_a_second_factor() {
    play_in_a_day("devices", "UTC", 0, |stage| {
        let visit = |city: &str| format!("/update?biz=cities&key=alice&member={city}");
        for city in ["Lyon", "Lyon", "Oslo", "Rome", "Bern"] {
            stage.get(&visit(city), 200, "limited=false !action");
        }
        // An estimate: two cities may collide now and then, but never as many as these.
        (1..=8).for_each(|nth| _ = stage.raw(&visit(&format!("Village{nth}"))));
        let words = "limited=false used=7..=13 max=4 action=second-factor reset=1..=86400000";
        stage.get(&visit("Pisa"), 200, words);
        assert_eq!(stage.later(DAY, "cities", "alice").figures.used, 0);
    });
}
