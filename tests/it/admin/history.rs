//! The history of a server that is killed, and stopped, and started again.

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::common::plane::{Plane, ask};
use crate::common::{Client, Server, wait_until};

/// The rows of the last five minutes, or of a longer time.
fn rows(plane: &Plane, since: &str) -> Option<Vec<Value>> {
    let accept = "Accept: application/json\r\n";
    let target = format!("/stats?since={since}");
    // A keeper may have died, and the next one not be ready.
    let answer = ask(&mut Client::try_connect(plane.address)?, "GET", &target, accept, "").ok()?;
    assert!([200, 503].contains(&answer.status), "{answer:?}");
    let document: Value = serde_json::from_str(&answer.body).expect("JSON");
    document["history"]["rows"].as_array().cloned()
}

fn sum(rows: &[Value], of: &str, name: &str) -> u64 {
    rows.iter().filter_map(|row| row["biz"][of][name].as_u64()).sum()
}

/// Waits until both kinds of rows have counted so many Updates of business `three` that passed, and
/// so many that were refused.
#[track_caller]
fn expect(plane: &Plane, allowed: u64, limited: u64) {
    for since in ["2m", "1h"] {
        wait_until(&format!("the history of {since} has {allowed} and {limited}"), || {
            let rows = rows(plane, since)?;
            let counted = ["allowed", "limited"].map(|name| sum(&rows, "three", name));
            (counted == [allowed, limited]).then_some(())
        });
    }
}

fn update(server: &Server<'_>, key: &str) {
    let mut client = server.client();
    (0..5).for_each(|_| drop(client.get(&format!("/update?biz=three&key={key}"))));
}

#[test]
fn nothing_of_the_history_is_lost_or_counted_twice() {
    let plane = Plane::new(2);
    let mut server = plane.start(2);
    // What was counted before the first look is no second's.
    wait_until("the first second has a row", || rows(&plane, "1m").filter(|rows| !rows.is_empty()));
    update(&server, "a");
    expect(&plane, 3, 2);
    let keeper = server.attached("keeper")[0];
    kill(keeper, Signal::SIGKILL).expect("killed");
    update(&server, "b");
    expect(&plane, 6, 4);
    server.kill_all_and_wait();
    let server = plane.start(2);
    update(&server, "c");
    expect(&plane, 9, 6);
    let size = || std::fs::metadata(plane.setup.path("data/history.mmap")).expect("there").len();
    assert_eq!(size(), 14_687_568);
    let rows = rows(&plane, "1m").expect("rows");
    assert!(rows.iter().all(|row| row["time"].as_u64().is_some_and(|time| time % 1000 == 0)));
    assert!(rows.iter().any(|row| row["p99-us"].as_u64() > Some(0)), "{rows:?}");
    assert!(rows.iter().any(|row| row["biz"]["three"]["p99-us"].as_u64() > Some(0)), "{rows:?}");
}
