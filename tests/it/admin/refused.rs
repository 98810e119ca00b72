//! Refused keys: their counts outlive the workers that counted them, and the log has a sample.

use std::io::Write;

use serde_json::Value;

use crate::common::plane::Plane;
use crate::common::{Client, Settings, text, wait_until};

/// Sends Updates in one piece, and reads their answers.
fn update(client: &mut Client, keys: impl Iterator<Item = String>) {
    let keys: Vec<String> = keys.collect();
    let requests = keys
        .iter()
        .map(|key| format!("GET /update?biz=three&key={key} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.stream.write_all(requests.collect::<String>().as_bytes()).expect("written");
    keys.iter().for_each(|_| drop(client.answer()));
}

fn top(plane: &Plane, target: &str) -> Vec<Value> {
    plane.json(target)["top"]["nodes"].as_array().cloned().unwrap_or_default()
}

// Shows: refused-keys.
#[test]
fn refused_keys_outlive_the_workers_that_counted_them() {
    let plane = Plane::new(1);
    let server = plane.start(1);
    let mut client = server.client();
    update(&mut client, (0..10).map(|_| "k".to_owned()));
    let before = server.workers();
    for worker in &before {
        nix::sys::signal::kill(*worker, nix::sys::signal::Signal::SIGKILL).expect("killed");
    }
    wait_until("another one serves", || {
        let workers = server.workers();
        (workers.len() == 1 && workers != before).then_some(())
    });
    update(&mut server.client(), (0..5).map(|_| "k".to_owned()));
    let nodes = top(&plane, "/top?by=refused&biz=three");
    assert_eq!((&nodes[0]["refused"], &nodes[0]["error"]), (&12.into(), &0.into()));
}

// Shows: refused-keys.
#[test]
fn a_long_key_is_shown_whole_or_as_it_begins() {
    let plane = Plane::new(1);
    let map = plane.map().replace(
        "</map>",
        "<biz id=\"77\" name=\"secrets\" key=\"digest\"><limit policy=\"total\" max=\"1\"/></biz></map>",
    );
    plane.setup.write_map(&map);
    let server = plane.start(1);
    let mut client = server.client();
    let uuid = "123e4567-e89b-12d3-a456-426614174000";
    // The 40th byte of this key is the first half of a letter.
    let token = format!("{}\u{e9} and more", "t".repeat(39));
    update(&mut client, (0..9).map(|_| uuid.to_owned()));
    update(&mut client, (0..6).map(|_| token.replace('\u{e9}', "%C3%A9").replace(' ', "%20")));
    for _ in 0..3 {
        client.get("/update?biz=secrets&key=hidden");
    }
    let nodes = top(&plane, "/top?by=refused");
    let shown = |node: &Value| {
        let text = |name: &str| node.get(name).and_then(Value::as_str).map(str::to_owned);
        (text("key").expect("a key"), text("begins"))
    };
    assert_eq!(shown(&nodes[0]), (uuid.to_owned(), None));
    let (key, begins) = shown(&nodes[1]);
    assert!(key.starts_with("digest:"), "{key}");
    assert_eq!(begins, Some("t".repeat(39)));
    let (key, begins) = shown(&nodes[2]);
    assert!(key.starts_with("digest:") && begins.is_none(), "{nodes:?}");
    let said = plane.setup.inspect(&["top", "data", "--by", "refused", "--window", "1h"]);
    let said = text(&said.stdout);
    assert!(said.contains(&format!("\"{}\"… digest:", "t".repeat(39))), "{said}");
}

// Shows: refused-keys, refusal-sample.
#[test]
fn a_sample_of_refusals_is_logged() {
    let plane = Plane::new(1);
    let more = format!("<admin listen=\"{}\"/><log refusals=\"3/d\"/>", plane.address);
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    let server = plane.start(1);
    let mut client = server.client();
    update(&mut client, (0..10).map(|nth| format!("k{}%0a", nth % 2)));
    let long = "l".repeat(41);
    update(&mut client, (0..4).map(|_| long.clone()));
    let lines = wait_until("they are logged", || {
        let log = plane.setup.log();
        let lines = log.lines().filter(|line| line.contains(" refused biz="));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        (lines.len() >= 3).then_some(lines)
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in &lines {
        assert!(line.contains("biz=\"three\""), "{line}");
        assert!(line.contains("limit=\"1\"") && line.contains("peer=\"127.0.0.1\""), "{line}");
        assert!(line.contains("key=\"k0\\n\"") || line.contains("key=\"k1\\n\""), "{line}");
    }
    // A reload with the same rate continues the sample. A larger rate adds the difference.
    let reload = |rate: &str| {
        let more = format!("<admin listen=\"{}\"/>{rate}", plane.address);
        plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
        plane.setup.frs(&["reload"]);
    };
    let count = |what: &str| plane.setup.log().lines().filter(|line| line.contains(what)).count();
    reload("<log refusals=\"3/d\"/>");
    update(&mut client, (0..4).map(|_| long.clone()));
    reload("<log refusals=\"4/d\"/>");
    update(&mut client, (0..4).map(|_| long.clone()));
    wait_until("a long key is logged by its digest", || (count("key=\"digest:") > 0).then_some(()));
    assert_eq!((count(" refused biz="), count("more items were refused")), (4, 0));
    assert!(count(&format!("begins=\"{}\"", &long[1..])) > 0, "{}", plane.setup.log());
    assert!(!plane.setup.log().contains(&long));
    // Refusals left out: 2 at first, 4 after a reload and 3 after the next. All are reported when
    // the sample ends.
    reload("");
    wait_until("those that were left out are told of", || {
        (count("more items were refused") > 0).then_some(())
    });
    assert_eq!(count("more items were refused left_out=9"), 1, "{}", plane.setup.log());
}

// Shows: refusal-sample.
#[test]
fn those_that_were_left_out_are_told_of_when_the_load_stops_and_when_the_worker_does() {
    let plane = Plane::new(1);
    let more = format!("<admin listen=\"{}\"/><log refusals=\"2/s\"/>", plane.address);
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    let mut server = plane.start(1);
    let mut client = server.client();
    let left_out = || -> u64 {
        let log = plane.setup.log();
        let lines = log.lines().filter(|line| line.contains("more items were refused"));
        let figures = lines.filter_map(|line| line.rsplit_once("left_out="));
        figures.map(|(_, figure)| figure.parse::<u64>().expect("a number")).sum()
    };
    let logged =
        || plane.setup.log().lines().filter(|line| line.contains(" refused biz=")).count() as u64;
    update(&mut client, (0..23).map(|_| "k".to_owned()));
    // The client sends nothing meanwhile.
    wait_until("the rest is told of", || (left_out() + logged() == 20).then_some(()));
    assert!(logged() >= 2);
    update(&mut client, (0..20).map(|_| "k".to_owned()));
    plane.setup.frs(&["stop"]);
    server.wait();
    assert_eq!(left_out() + logged(), 40, "{}", plane.setup.log());
}
