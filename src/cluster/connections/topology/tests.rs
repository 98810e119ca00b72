//! Views of clusters, as Redis and Valkey answer them.

use super::*;

fn node(host: &str, port: u16) -> ClusterNode {
    ClusterNode { host: host.to_owned(), port }
}

fn word(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn member(endpoint: Value, port: i64, role: &str, health: &str) -> Value {
    Value::Array(vec![
        word("id"),
        word("0123"),
        word("port"),
        Value::Int(port),
        word("tls-port"),
        Value::Int(port + 1000),
        word("ip"),
        word("10.0.0.9"),
        word("endpoint"),
        endpoint,
        word("role"),
        word(role),
        word("health"),
        word(health),
    ])
}

fn shard(slots: &[i64], nodes: Vec<Value>) -> Value {
    let slots = slots.iter().map(|&slot| Value::Int(slot)).collect();
    Value::Array(vec![word("slots"), Value::Array(slots), word("nodes"), Value::Array(nodes)])
}

fn read(shards: Vec<Value>, tls: bool) -> Result<View, BadView> {
    let info = word("cluster_state:ok\r\ncluster_current_epoch:7\r\ncluster_my_epoch:2\r\n");
    View::read(&info, &Value::Array(shards), &node("seed", 1), tls)
}

#[test]
fn a_view_names_masters_slots_and_replicas() {
    let one = vec![
        member(word("10.0.0.2"), 6380, "replica", "online"),
        member(word("10.0.0.1"), 6379, "master", "online"),
    ];
    let view = read(vec![shard(&[0, 99, 200, 200], one.clone())], false).unwrap();
    assert_eq!(view.epoch, 7);
    let slots = vec![0..100, 200..201];
    assert_eq!(view.shards, [Shard { master: node("10.0.0.1", 6379), slots }]);
    assert_eq!(view.replicas, [node("10.0.0.2", 6380)]);
    let over_tls = read(vec![shard(&[0, 16383], one)], true).unwrap();
    let slots = vec![0..16384];
    assert_eq!(over_tls.shards, [Shard { master: node("10.0.0.1", 7379), slots }]);
}

#[test]
fn the_master_that_is_online_serves() {
    let nodes = vec![
        member(word("old"), 1, "master", "failed"),
        member(word("new"), 2, "master", "online"),
    ];
    let view = read(vec![shard(&[0, 1], nodes)], false).unwrap();
    assert_eq!(view.shards[0].master, node("new", 2));
    let failed = vec![member(word("old"), 1, "master", "failed")];
    let view = read(vec![shard(&[0, 1], failed)], false).unwrap();
    assert_eq!(view.shards[0].master, node("old", 1));
}

#[test]
fn an_address_that_is_not_known_is_found_elsewhere() {
    let of = |endpoint| {
        let nodes = vec![member(endpoint, 1, "master", "online")];
        read(vec![shard(&[0, 1], nodes)], false).unwrap().shards[0].master.clone()
    };
    assert_eq!(of(word("?")), node("10.0.0.9", 1));
    assert_eq!(of(Value::Nil), node("10.0.0.9", 1));
    assert_eq!(of(word("name")), node("name", 1));
}

#[test]
fn what_is_no_view_is_a_fault() {
    let master = || vec![member(word("a"), 1, "master", "online")];
    assert!(read(vec![shard(&[3, 2], master())], false).is_err());
    assert!(read(vec![shard(&[0, 16384], master())], false).is_err());
    assert!(read(vec![shard(&[-1, 5], master())], false).is_err());
    assert!(read(vec![word("shard")], false).is_err());
    let no_epoch = View::read(&word(""), &Value::Array(vec![]), &node("a", 1), false);
    assert!(no_epoch.is_err());
}

#[test]
fn redirections_are_read() {
    let read = |error| Redirection::read(error, &node("asked", 9));
    let to = |slot, host, port, asks| Some(Redirection { slot, node: node(host, port), asks });
    assert_eq!(read("MOVED 3999 10.0.0.1:6381"), to(3999, "10.0.0.1", 6381, false));
    assert_eq!(read("ASK 0 [::1]:6381"), to(0, "::1", 6381, true));
    assert_eq!(read("ASK 0 ::1:6381"), to(0, "::1", 6381, true));
    assert_eq!(read("MOVED 1 :6381"), to(1, "asked", 6381, false));
    for error in ["MOVED", "MOVED 16384 a:1", "MOVED 1 ?:1", "MOVED 1 a:0", "ERR MOVED 1 a:1"] {
        assert_eq!(read(error), None, "{error}");
    }
}
