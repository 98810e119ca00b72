//! The history of a server that is killed, stopped and started again, or replaced while it serves.

use std::io::{ErrorKind, Read};

use frs_base::clock;
use frs_server::stats::history_file::{
    HistoryBiz, HistoryFile, HistoryRow, HistoryTotals, ROW_BIZS, Resolution,
};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::common::load::{under_load, wait_for_more};
use crate::common::plane::{Plane, ask};
use crate::common::{Client, Server, wait_until};
use crate::life::Life;

/// The rows of the last five minutes, or of a longer time.
fn rows(plane: &Plane, since: &str) -> Option<Vec<Value>> {
    let accept = "Accept: application/json\r\n";
    let target = format!("/stats?since={since}");
    // A keeper may have died, and the next one may not be ready yet.
    let answer = ask(&mut Client::try_connect(plane.address)?, "GET", &target, accept, "").ok()?;
    assert!([200, 503].contains(&answer.status), "{answer:?}");
    let document: Value = serde_json::from_str(&answer.body).expect("JSON");
    document["history"]["rows"].as_array().cloned()
}

fn sum(rows: &[Value], of: &str, name: &str) -> u64 {
    rows.iter().filter_map(|row| row["biz"][of][name].as_u64()).sum()
}

/// Waits until both kinds of rows have counted this many allowed and limited Updates of business
/// `three`.
#[track_caller]
fn expect(plane: &Plane, allowed: u64, limited: u64) {
    expect_of(plane, "three", [allowed, limited]);
}

#[track_caller]
fn expect_of(plane: &Plane, biz: &str, expected: [u64; 2]) {
    for since in ["2m", "1h"] {
        wait_until(&format!("the history of {since} has {expected:?} of {biz}"), || {
            let rows = rows(plane, since)?;
            let counted = ["allowed", "limited"].map(|name| sum(&rows, biz, name));
            (counted == expected).then_some(())
        });
    }
}

fn update(server: &Server<'_>, key: &str) {
    update_over(server.client(), key);
}

fn update_over(mut client: Client, key: &str) {
    (0..5).for_each(|_| drop(client.get(&format!("/update?biz=three&key={key}"))));
}

/// The allowed and the limited Updates of a business, by `/metrics`.
fn counted(plane: &Plane, biz: &str) -> [u64; 2] {
    ["allowed", "limited"].map(|verdict| {
        let sample =
            format!("frs_items_total{{biz=\"{biz}\",command=\"update\",verdict=\"{verdict}\"}}");
        plane.metric(&sample).unwrap_or(0)
    })
}

// Shows: history-of-the-server.
#[test]
fn nothing_of_the_history_is_lost_or_counted_twice() {
    let plane = Plane::new(2);
    let mut server = plane.start(2);
    // Uses before the first look belong to no second.
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

// Shows: history-of-the-server.
#[test]
fn upgrades_lose_nothing_of_the_history() {
    const UPGRADES: u64 = 3;
    let plane = Plane::new(2);
    let life = Life::start(&plane.setup);
    wait_until("the first second has a row", || rows(&plane, "1m").filter(|rows| !rows.is_empty()));
    let answered = under_load(plane.setup.address, |answered| {
        for nth in 0..UPGRADES {
            life.upgrade();
            update_over(Client::connect(plane.setup.address), &format!("k{nth}"));
            wait_for_more(answered, 200);
        }
    });
    let answered: u64 = answered.iter().sum();
    for (biz, expected) in [("plenty", [answered, 0]), ("three", [UPGRADES * 3, UPGRADES * 2])] {
        expect_of(&plane, biz, expected);
        wait_until("the counters say the same", || {
            (counted(&plane, biz) == expected).then_some(())
        });
    }
    // Each recorded second has one row, from before or after the upgrades.
    let rows = rows(&plane, "2m").expect("rows");
    let times: Vec<u64> = rows.iter().filter_map(|row| row["time"].as_u64()).collect();
    assert!(times.is_sorted_by(|one, other| one < other), "{times:?}");
    assert!(!plane.setup.log().contains("no history is kept"), "{}", plane.setup.log());
    life.stop();
}

/// The minutes of six hours.
const MINUTES: u64 = 360;

/// Writes a history of six hours in which 256 businesses had constant traffic.
fn write_hours(plane: &Plane) {
    let data = plane.setup.path("data");
    std::fs::create_dir_all(&data).expect("created");
    let mut file = HistoryFile::open(&data).expect("opened").expect("nobody else has it");
    let biz =
        |id: u32| HistoryBiz { id: Some(id), allowed: 70_000, limited: 900, p99_us: Some(90) };
    let bizs: Vec<HistoryBiz> = (1..=ROW_BIZS as u32).map(biz).collect();
    let now = clock::now();
    for back in 0..MINUTES {
        let time_ms = Resolution::Minute.begin(now - back * Resolution::Minute.ms());
        let row = HistoryRow {
            time_ms,
            requests: 18_000_000,
            bizs: bizs.clone(),
            ..HistoryRow::default()
        };
        file.write_row(Resolution::Minute, &row).expect("written");
    }
    let totals = HistoryTotals {
        second_ms: Resolution::Second.begin(now) - 1000,
        ..HistoryTotals::default()
    };
    file.commit(&totals).expect("written");
}

/// How often the test tries to be answered first.
const TRIES: usize = 10;

// Shows: slow-admin-clients.
#[test]
fn a_long_history_keeps_no_other_client_waiting() {
    let plane = Plane::new(1);
    write_hours(&plane);
    let _server = plane.start(1);
    // On a busy machine this test may be the late one. If clients had to wait, no try would
    // succeed.
    let is_first = |target: &str| {
        let mut asks = plane.client();
        asks.send("GET /stats?since=6h HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(plane.get(target).status, 200, "{target}");
        asks.stream.set_nonblocking(true).expect("set");
        let read = asks.stream.read(&mut [0]).map_err(|error| error.kind());
        asks.stream.set_nonblocking(false).expect("set");
        (read == Err(ErrorKind::WouldBlock)).then(|| asks.answer())
    };
    for target in ["/metrics", "/stats", "/stats?since=3s", "/biz/three"] {
        let answered = (0..TRIES).any(|_| is_first(target).is_some());
        assert!(answered, "{target} is answered before");
    }
    let answer = (0..TRIES).find_map(|_| is_first("/health")).expect("/health is answered before");
    assert_eq!(answer.status, 200);
    // Some rows may be older than six hours by now.
    let rows = answer.body.matches("name=\"256\"").count() as u64;
    assert!(rows >= MINUTES - 10, "{rows} in {} bytes", answer.body.len());
}
