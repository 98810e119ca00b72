//! Who is refused: an attack played, and what each view says of it.

use std::io::Write;

use serde_json::Value;

use crate::common::plane::Plane;
use crate::common::{Client, Server, Settings, text, wait_until};

/// A client of business `three`, which allows three uses an hour.
const ATTACKER: &str = "203.0.113.66";
const REFUSED: u64 = 1000;

/// Sends Updates in one piece, and reads their answers.
fn update(client: &mut Client, keys: impl Iterator<Item = String>) {
    let keys: Vec<String> = keys.collect();
    let requests = keys
        .iter()
        .map(|key| format!("GET /update?biz=three&key={key} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client.stream.write_all(requests.collect::<String>().as_bytes()).expect("written");
    keys.iter().for_each(|_| drop(client.answer()));
}

/// One key of 10,000 is refused again and again among many others. Returns how many Updates were
/// sent of others.
fn attack(server: &Server<'_>) {
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    update(&mut clients[0], (0..3).map(|_| ATTACKER.to_owned()));
    for round in 0..REFUSED / 20 {
        let client = &mut clients[round as usize % 4];
        let others = (0..100).map(|nth| (round * 100 + nth) * 7919 % 10_000);
        // A few of them come more often (Zipf), and are refused, too.
        let others = others.map(|key| format!("10.0.{}.{}", key % 7, key % 5 * key % 251));
        update(client, others.chain((0..20).map(|_| ATTACKER.to_owned())));
    }
}

fn top(plane: &Plane, target: &str) -> Vec<Value> {
    plane.json(target)["top"]["nodes"].as_array().cloned().unwrap_or_default()
}

/// The value of a metric.
fn metric(text: &str, start: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(start));
    line.map_or(0, |value| value.trim().parse().expect("a number"))
}

#[test]
fn an_attacker_is_first_in_every_view() {
    let plane = Plane::new(2);
    let server = plane.start(2);
    // It is built before the attack: a minute is soon over.
    plane.setup.inspect(&["--version"]);
    attack(&server);
    let counted = wait_until("the refusals are counted", || {
        let metrics = plane.get("/metrics").body;
        let counted = metric(&metrics, "frs_limit_refusals_total{biz=\"three\",limit=\"1\"}");
        (counted >= REFUSED).then_some(counted)
    });
    for target in ["/top?by=refused", "/top?by=refused&biz=three&window=1h", "/top?by=refused&n=1"]
    {
        let nodes = top(&plane, target);
        let first = &nodes[0];
        assert_eq!((&first["biz"], &first["key"]), (&"three".into(), &ATTACKER.into()));
        let number = |name: &str| first[name].as_u64().expect("a number");
        let (refused, error) = (number("refused"), number("error"));
        assert!(refused >= REFUSED && refused - error <= REFUSED, "{target}: {first}");
        assert!(nodes.len() == 1 || nodes[1]["refused"].as_u64() < Some(refused), "{nodes:?}");
        assert!(number("last") > 1_700_000_000_000);
    }
    assert_eq!(top(&plane, "/top?by=refused&biz=plenty"), [Value::Null; 0]);
    let data = plane.setup.path("data");
    let data = data.to_str().expect("text");
    for arguments in [
        &["top", data, "--by", "refused"][..],
        &["top", data, "three", "--by", "refused", "--window", "1h"],
    ] {
        let output = plane.setup.inspect(arguments);
        let shown = text(&output.stdout);
        let first = shown.lines().nth(2).expect("a key");
        assert!(first.contains(ATTACKER) && first.contains("three"), "{shown}");
    }
    // The figures of all views are the same.
    let stats = plane.json("/stats");
    let bizs = stats["bizs"].as_array().expect("a list");
    let three = bizs.iter().find(|biz| biz["name"] == "three").expect("it is there");
    assert_eq!(three["refusals"], serde_json::json!([counted]));
    assert_eq!(three["updates"]["limited"], counted);
    assert!(three["latency"]["count"].as_u64() > Some(0), "{three}");
}

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

#[test]
fn a_sample_of_refusals_is_logged() {
    let plane = Plane::new(1);
    let more = format!("<admin listen=\"{}\"/><log refusals=\"3/d\"/>", plane.address);
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    let server = plane.start(1);
    let mut client = server.client();
    update(&mut client, (0..10).map(|nth| format!("k{}%0a", nth % 2)));
    let long = "l".repeat(40);
    update(&mut client, (0..4).map(|_| long.clone()));
    let lines = wait_until("they are logged", || {
        let log = plane.setup.log();
        let lines = log.lines().filter(|line| line.contains(" refused "));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        (lines.len() >= 3).then_some(lines)
    });
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in &lines {
        assert!(line.contains("biz=\"three\""), "{line}");
        assert!(line.contains("limit=\"1\"") && line.contains("peer=\"127.0.0.1\""), "{line}");
        assert!(line.contains("key=\"k0\\n\"") || line.contains("key=\"k1\\n\""), "{line}");
    }
    // With a reload another sample begins.
    let more = format!("<admin listen=\"{}\"/><log refusals=\"1/d\"/>", plane.address);
    plane.setup.write_srv(&Settings { workers: 1, more, ..Settings::default() });
    plane.setup.frs(&["reload"]);
    wait_until("a long key is logged by its digest", || {
        update(&mut client, std::iter::once(long.clone()));
        let log = plane.setup.log();
        log.lines().any(|line| line.contains("key=\"digest:")).then_some(())
    });
    assert!(!plane.setup.log().contains(&long));
}
