//! Who is refused: keys that outlive who counted them, and a sample in the log.

use std::io::Write;

use serde_json::Value;

use crate::common::plane::Plane;
use crate::common::{Client, Settings, wait_until};

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
