//! Tests that read the text back with a parser written from the description of the exposition
//! format.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::stats::peers::{MirrorSnapshot, PeerSnapshot};
use crate::stats::snapshot::{self, BizSnapshot, ClientSnapshot, ProcessSnapshot};
use frs_cluster::figures::{ClusterNodeState, ClusterState, PeerState};
use frs_conf::{Geometry, HashKind};
use frs_store::counter::{BizKey, ClientKey, ClientSums, GroupKey, GroupSums, Nodes, OUTCOMES};

/// A family of samples.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Reads the format and checks the text against its rules.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut seen) = (String::new(), BTreeSet::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            assert!(!families.contains_key(name), "{name} stands twice");
            current = name.to_owned();
            families.entry(current.clone()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, current, "its type follows its help");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{kind}");
            let family = families.get_mut(name).expect("its help was there");
            assert!(family.kind.is_empty() && family.samples.is_empty());
            family.kind = kind.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            let family = families.get_mut(&current).expect("help and type before");
            let is_part = name.strip_prefix(&*current).is_some_and(|rest| match &*family.kind {
                "histogram" => matches!(rest, "_bucket" | "_sum" | "_count"),
                _ => rest.is_empty(),
            });
            assert!(is_part, "{name} among the samples of {current}");
            assert!(seen.insert((name.clone(), labels.clone())), "{line} stands twice");
            family.samples.push((name, labels, value));
        }
    }
    families
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).expect("a name and a value");
    let (name, rest) = line.split_at(end);
    assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
    let mut labels = BTreeMap::new();
    let mut rest = rest.chars();
    if rest.as_str().starts_with('{') {
        rest.next();
        while !rest.as_str().starts_with('}') {
            let label: String = rest.by_ref().take_while(|&c| c != '=').collect();
            let label = label.trim_start_matches(',').to_owned();
            assert_eq!(rest.next(), Some('"'));
            let mut value = String::new();
            loop {
                match rest.next().expect("an end of the value") {
                    '"' => break,
                    '\\' => value.push(match rest.next() {
                        Some('n') => '\n',
                        Some(c @ ('\\' | '"')) => c,
                        other => panic!("{other:?} is no escape"),
                    }),
                    c => value.push(c),
                }
            }
            assert!(labels.insert(label, value).is_none());
        }
        rest.next();
    }
    let value = rest.as_str().strip_prefix(' ').expect("a blank before the value");
    (name.to_owned(), labels, value.parse().expect("a number"))
}

/// Statistics with at least one of each figure.
fn stats() -> Stats {
    let mut sums = Sums::default();
    sums.requests[Call::Update as usize][0] = 12;
    sums.requests[Call::Other as usize][4] = 3;
    for us in [1, 3, 100, 1 << 30] {
        sums.request_times.add(us, 2);
    }
    sums.item_errors[1] = 9;
    sums.handshakes = [5, 4, 3];
    let mut group = GroupSums::default();
    group.nodes = Some(Nodes { live: 3, expired: 2, free: 1, swept_ms: 5, ..Nodes::default() });
    let mut times = Histogram::default();
    times.add(100, 3);
    let biz = |key, name: Option<&str>| BizSnapshot {
        key,
        name: name.map(str::to_owned),
        limits: vec!["5 in 60 s".into(), "9 in 1 h".into()],
        bounds: name.map_or(Vec::new(), |_| {
            let bounds = |max, period_us| LimitBounds { max, period_us };
            vec![bounds(Some(5), Some(60_000_000)), bounds(None, None), bounds(Some(7), None)]
        }),
        is_shared: false,
        refusals: [4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1],
        times: times.clone(),
        items: [[1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14]],
        rates: Default::default(),
        has_holds: name.is_some(),
        holds: name.map(|_| 3),
        has_registers: name.is_some(),
        registers: name.map(|_| 4),
        hottest: vec![snapshot::HotKey { key: "alice".into(), used: 5, last_ms: 6 }],
    };
    let process = |role, connections| ProcessSnapshot {
        slot: 0,
        pid: 1,
        role,
        restarts: None,
        generation: 1,
        cpu_ms: None,
        connections,
        parked: 2,
        requests: 0,
        requests_per_s: None,
        cpu_share: None,
    };
    Stats {
        version: "1.2.3",
        generation: 4,
        sums,
        checkpoints: Some(frs_store::CheckpointCounts::default()),
        master: frs_store::MasterCounts {
            started_ms: 1_700_000_000_123,
            restarts: [5, 6, 0, 7],
            reloads: [7, 8],
            reloaded_ms: [1_700_000_001_000, 0],
            is_reload_refused: true,
        },
        processes: vec![process("worker", 2), process("worker", 3), process("keeper", 0)],
        groups: vec![
            GroupSnapshot {
                key: GroupKey::Name("g".into()),
                geometry: Some(geometry()),
                served: false,
                moving: Some(frs_conf::MoveMode::Lossless),
                checkpoint_ms: Some(1_700_000_002_000),
                sums: group,
            },
            GroupSnapshot {
                key: GroupKey::Others,
                geometry: None,
                served: false,
                moving: None,
                checkpoint_ms: None,
                sums: GroupSums::default(),
            },
        ],
        bizs: vec![
            biz(BizKey::Id(1), Some("a\"b\\c\nd")),
            biz(BizKey::Id(77), None),
            biz(BizKey::Unknown, None),
            biz(BizKey::Others, None),
        ],
        certificate_ends: vec![("edge".to_owned(), 1_800_000_000)],
        ..Stats::default()
    }
}

fn geometry() -> Geometry {
    let (files, key_nodes, chain) = (1, 8, 8);
    Geometry { files, key_nodes, chain, node_bytes: 64, key_bytes: 24, hash: HashKind::Bob }
}

/// Each metric, its type and its labels.
const TABLE: [(&str, &str, &[&str]); 44] = [
    ("frs_requests_total", "counter", &["command", "status"]),
    ("frs_items_total", "counter", &["biz", "command", "verdict"]),
    ("frs_limit_refusals_total", "counter", &["biz", "limit"]),
    ("frs_biz_request_seconds", "histogram", &["biz"]),
    ("frs_item_errors_total", "counter", &["error"]),
    ("frs_holds", "gauge", &["biz"]),
    ("frs_holds_made_total", "counter", &[]),
    ("frs_holds_ended_total", "counter", &[]),
    ("frs_holds_lapsed_total", "counter", &[]),
    ("frs_registers", "gauge", &["biz"]),
    ("frs_limit_max", "gauge", &["biz", "limit"]),
    ("frs_limit_period_seconds", "gauge", &["biz", "limit"]),
    ("frs_request_seconds", "histogram", &[]),
    ("frs_connections", "gauge", &[]),
    ("frs_connections_total", "counter", &[]),
    ("frs_connections_refused_total", "counter", &[]),
    ("frs_timeouts_total", "counter", &[]),
    ("frs_resp_unknown_commands_total", "counter", &["command"]),
    ("frs_bytes_total", "counter", &["direction"]),
    ("frs_tls_handshakes_total", "counter", &["result"]),
    ("frs_tls_not_after_seconds", "gauge", &["tls"]),
    ("frs_group_served", "gauge", &["group"]),
    ("frs_group_moving", "gauge", &["group"]),
    ("frs_nodes", "gauge", &["group", "state"]),
    ("frs_creates_total", "counter", &["group"]),
    ("frs_evictions_total", "counter", &["group", "kind"]),
    ("frs_dropped_nodes_total", "counter", &["group", "reason"]),
    ("frs_semaphore_waits_total", "counter", &[]),
    ("frs_semaphore_busy_total", "counter", &[]),
    ("frs_semaphore_orphans_total", "counter", &[]),
    ("frs_recoveries_total", "counter", &[]),
    ("frs_processes", "gauge", &["role"]),
    ("frs_process_restarts_total", "counter", &["role"]),
    ("frs_config_generation", "gauge", &[]),
    ("frs_config_reloads_total", "counter", &["result"]),
    ("frs_config_last_reload_timestamp_seconds", "gauge", &["result"]),
    ("frs_reload_refused", "gauge", &[]),
    ("frs_flush_seconds", "histogram", &[]),
    ("frs_flush_errors_total", "counter", &[]),
    ("frs_checkpoint_seconds", "histogram", &[]),
    ("frs_checkpoint_timestamp_seconds", "gauge", &["group"]),
    ("frs_degraded", "gauge", &[]),
    ("frs_start_timestamp_seconds", "gauge", &[]),
    ("frs_build_info", "gauge", &["version"]),
];

// Shows: counters-exact.
#[test]
fn every_metric_is_there_with_its_labels() {
    let families = parse(&text(&stats()));
    assert_eq!(families.len(), TABLE.len(), "{:?}", families.keys());
    for (name, kind, labels) in TABLE {
        let family = families.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(family.kind, kind, "{name}");
        assert!(!family.help.is_empty() && !family.samples.is_empty(), "{name}");
        for (sample, found, _) in &family.samples {
            let found = found.keys().map(String::as_str).filter(|label| *label != "le");
            assert_eq!(found.collect::<Vec<_>>(), labels, "{sample}");
        }
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
    }
}

fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let wanted: BTreeMap<String, String> =
        labels.iter().map(|&(label, value)| (label.to_owned(), value.to_owned())).collect();
    let families = parse(text);
    let mut samples = families.values().flat_map(|family| &family.samples);
    samples.find(|(found, has, _)| found == name && *has == wanted).map(|sample| sample.2)
}

#[test]
fn a_server_without_checkpoints_says_nothing_of_them() {
    let stats = Stats { checkpoints: None, ..stats() };
    assert!(!text(&stats).contains("frs_checkpoint"));
}

#[test]
fn figures_stand_where_they_belong() {
    let text = text(&stats());
    let of = |name, labels: &[(&str, &str)]| value(&text, name, labels);
    let requests =
        |command, status| of("frs_requests_total", &[("command", command), ("status", status)]);
    assert_eq!(requests("update", "200"), Some(12.0));
    assert_eq!(requests("other", "404"), Some(3.0));
    assert_eq!(requests("query", "200"), Some(0.0));
    assert_eq!(requests("query", "404"), None, "never occurred");
    let items = |biz, command, verdict| {
        of("frs_items_total", &[("biz", biz), ("command", command), ("verdict", verdict)])
    };
    assert_eq!(items("a\"b\\c\nd", "query", "allowed"), Some(1.0));
    assert_eq!(items("77", "update", "error"), Some(14.0));
    assert_eq!(items("(unknown)", "query", "shadowed"), Some(4.0));
    assert_eq!(items("(others)", "update", "banned"), Some(10.0));
    assert_eq!(of("frs_item_errors_total", &[("error", "bad-key")]), Some(9.0));
    let holds = ["a\"b\\c\nd", "77"].map(|biz| of("frs_holds", &[("biz", biz)]));
    assert_eq!(holds, [Some(3.0), None]);
    let registers = ["a\"b\\c\nd", "77"].map(|biz| of("frs_registers", &[("biz", biz)]));
    assert_eq!(registers, [Some(4.0), None]);
    let limit = |name, number| of(name, &[("biz", "a\"b\\c\nd"), ("limit", number)]);
    let maxima = ["1", "2", "3", "4"].map(|number| limit("frs_limit_max", number));
    assert_eq!(maxima, [Some(5.0), None, Some(7.0), None]);
    let periods = ["1", "3"].map(|number| limit("frs_limit_period_seconds", number));
    assert_eq!(periods, [Some(60.0), None]);
    assert_eq!(of("frs_connections", &[]), Some(5.0));
    assert_eq!(of("frs_processes", &[("role", "worker")]), Some(2.0));
    assert_eq!(of("frs_process_restarts_total", &[("role", "keeper")]), Some(6.0));
    assert_eq!(of("frs_config_reloads_total", &[("result", "refused")]), Some(8.0));
    assert_eq!(of("frs_reload_refused", &[]), Some(1.0));
    assert_eq!(of("frs_start_timestamp_seconds", &[]), Some(1_700_000_000.123));
    let last = |result| of("frs_config_last_reload_timestamp_seconds", &[("result", result)]);
    assert_eq!((last("taken"), last("refused")), (Some(1_700_000_001.0), Some(0.0)));
    assert_eq!(of("frs_nodes", &[("group", "g"), ("state", "expired")]), Some(2.0));
    assert_eq!(of("frs_nodes", &[("group", "(others)"), ("state", "live")]), None);
    let of_g = of("frs_checkpoint_timestamp_seconds", &[("group", "g")]);
    assert_eq!(of_g, Some(1_700_000_002.0));
    assert_eq!(of("frs_build_info", &[("version", "1.2.3")]), Some(1.0));
    assert!(!text.contains("alice"), "a key is never a label");
}

#[test]
fn a_histogram_is_cumulative_and_ends_with_its_count() {
    let families = parse(&text(&stats()));
    for name in ["frs_request_seconds", "frs_flush_seconds"] {
        let samples = &families[name].samples;
        let of = |suffix: &str| {
            let mut found = samples.iter().filter(|sample| sample.0 == format!("{name}{suffix}"));
            found.next_back().expect("there").2
        };
        let buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(_, labels, count)| Some((labels.get("le")?.parse().ok()?, *count)))
            .collect();
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{buckets:?}");
        assert_eq!(buckets.last().map(|last| last.0), Some(f64::INFINITY));
        assert_eq!(of("_bucket"), of("_count"));
    }
    let text = text(&stats());
    let bucket = |le| value(&text, "frs_request_seconds_bucket", &[("le", le)]);
    assert_eq!(bucket("0.000001"), Some(2.0));
    assert_eq!(bucket("0.000004"), Some(4.0));
    assert_eq!(bucket("0.000128"), Some(6.0));
    assert_eq!(bucket("67.108864"), Some(6.0));
    assert_eq!(bucket("+Inf"), Some(8.0));
    assert_eq!(value(&text, "frs_request_seconds_sum", &[]), Some(2_147.483_856));
}

#[test]
fn a_server_that_has_just_begun_shows_every_series_that_needs_no_name() {
    let checkpoints = Some(frs_store::CheckpointCounts::default());
    let families = parse(&text(&Stats { checkpoints, ..Stats::default() }));
    for (name, _, labels) in TABLE {
        let named = labels.iter().any(|label| matches!(*label, "group" | "biz" | "tls"));
        assert_eq!(families[name].samples.is_empty(), named, "{name}");
    }
}

#[test]
fn limits_are_shown_up_to_a_bound() {
    let mut stats = stats();
    let bounds = LimitBounds { max: Some(1), period_us: None };
    stats.bizs[0].bounds = vec![bounds; MAX_LIMITS + 1];
    assert_eq!(text(&stats).matches("frs_limit_max{").count(), MAX_LIMITS);
}

/// The functions and commands that a courier sends to nodes.
const FUNCTIONS: [&str; 19] = [
    "interval",
    "calendar",
    "total",
    "sliding",
    "token",
    "sliding_counter",
    "holders",
    "heartbeat",
    "epoch",
    "secret",
    "put",
    "fetch",
    "drop",
    "load",
    "publish",
    "subscribe",
    "shards",
    "info",
    "start",
];

#[test]
fn a_cluster_is_shown_only_where_there_is_one() {
    assert!(
        !text(&Stats::default()).contains("frs_cluster")
            && !text(&Stats::default()).contains("frs_lease")
    );
    let node = |address: &str, is_up| ClusterNodeState { address: address.to_owned(), is_up };
    let nodes = vec![node("10.0.0.1:6379", true), node("10.0.0.2:6379", false)];
    let mut state = ClusterState::default();
    state.nodes = nodes;
    state.kept_since_ms = Some(7_000);
    let cluster = Some(state);
    let mut stats = Stats { has_cluster: true, cluster, now_ms: 8_500, ..Stats::default() };
    stats.cluster_sums.requests[ClusterFunction::Epoch as usize][ClusterResult::Moved as usize] = 3;
    let text = text(&stats);
    // Each function has a series of its own from the start.
    for function in FUNCTIONS {
        let labels = [("function", function), ("result", "ok")];
        assert_eq!(value(&text, "frs_cluster_requests_total", &labels), Some(0.0), "{function}");
    }
    assert_eq!(text.matches("result=\"ok\"").count(), FUNCTIONS.len());
    for line in [
        "frs_cluster_up{node=\"10.0.0.1:6379\"} 1",
        "frs_cluster_up{node=\"10.0.0.2:6379\"} 0",
        "frs_cluster_requests_total{function=\"epoch\",result=\"moved\"} 3",
        "frs_cluster_requests_total{function=\"interval\",result=\"ok\"} 0",
        "frs_cluster_seconds_count 0",
        "frs_cluster_over_total 0",
        "frs_cluster_conflicts_total 0",
        "frs_lease_claims_total 0",
        "frs_items_waited_total{outcome=\"missed\"} 0",
        "frs_parked 0",
        "frs_lease_uses{state=\"held\"} 0",
        "frs_backup_lag_seconds 1.5",
        "frs_spill_total{result=\"missed\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

/// The metrics of peers, their types and their labels.
const OF_PEERS: [(&str, &str, &[&str]); 8] = [
    ("frs_peer_up", "gauge", &["peer"]),
    ("frs_peer_compared", "gauge", &["peer"]),
    ("frs_mirror_lag_seconds", "gauge", &["peer"]),
    ("frs_mirror_lag_records", "gauge", &["peer"]),
    ("frs_peer_clock_skew_seconds", "gauge", &["peer"]),
    ("frs_mirror_learning", "gauge", &[]),
    ("frs_mirror_records_total", "counter", &["result"]),
    ("frs_mirror_overruns_total", "counter", &[]),
];

#[test]
fn peers_are_shown_only_where_there_are_some() {
    let none = text(&Stats::default());
    assert!(!none.contains("frs_peer") && !none.contains("frs_mirror"));
    let peer = |address: &str, state| PeerSnapshot { address: address.to_owned(), state };
    let up = PeerState {
        is_up: true,
        is_compared: true,
        lag_ms: 150,
        lag_records: 12,
        skew_ms: Some(-1500),
    };
    let peers = vec![peer("10.0.0.2:7610", up), peer("b:7610", PeerState::default())];
    let mirror = Some(MirrorSnapshot { peers, is_learning: true, ..MirrorSnapshot::default() });
    let stats = Stats { mirror, ..Stats::default() };
    let text = text(&stats);
    let families = parse(&text);
    for (name, kind, labels) in OF_PEERS {
        let family = families.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(family.kind, kind, "{name}");
        for (_, found, _) in &family.samples {
            assert_eq!(found.keys().collect::<Vec<_>>(), labels, "{name}");
        }
    }
    let lines = [
        "frs_peer_up{peer=\"10.0.0.2:7610\"} 1",
        "frs_peer_up{peer=\"b:7610\"} 0",
        "frs_peer_compared{peer=\"10.0.0.2:7610\"} 1",
        "frs_mirror_lag_seconds{peer=\"10.0.0.2:7610\"} 0.15",
        "frs_mirror_lag_records{peer=\"10.0.0.2:7610\"} 12",
        "frs_peer_clock_skew_seconds{peer=\"10.0.0.2:7610\"} -1.500",
        "frs_mirror_learning 1",
        "frs_mirror_overruns_total 0",
    ];
    for line in lines {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("frs_peer_clock_skew_seconds{peer=\"b:7610\"}"), "it is not known");
    for result in ["sent", "again", "outdated", "installed", "older", "void", "full"] {
        let count = value(&text, "frs_mirror_records_total", &[("result", result)]);
        assert_eq!(count, Some(0.0), "{result}");
    }
    assert_eq!(families["frs_mirror_records_total"].samples.len(), 7);
}

// Shows: counted-by-client.
#[test]
fn clients_are_shown_only_where_they_are_told_apart() {
    let client = |key, items| {
        let sums = ClientSums { items, refused: 1 };
        ClientSnapshot { key, is_known: true, sums }
    };
    let named = |name: &str, items| client(ClientKey::Name(name.to_owned()), items);
    let mut stats = stats();
    assert!(!text(&stats).contains("frs_client"));
    stats.clients = vec![
        named("shop", [1, 2, 0, 0, 0, 0, 7]),
        named("a\"b\\c\nd", [0; OUTCOMES]),
        client(ClientKey::Others, [4, 0, 0, 0, 0, 0, 0]),
    ];
    let text = text(&stats);
    let of = |client, verdict| {
        value(&text, "frs_client_items_total", &[("client", client), ("verdict", verdict)])
    };
    stats.clients = vec![named(&"n".repeat(64), [u64::MAX; OUTCOMES])];
    let bytes = self::text(&stats).len() - self::text(&self::stats()).len();
    // Without the two lines of the head.
    assert!((CLIENT_BYTES / 2..=CLIENT_BYTES + 200).contains(&bytes), "{bytes}");
    let shop = ["allowed", "limited", "banned", "error"].map(|verdict| of("shop", verdict));
    assert_eq!(shop, [Some(1.0), Some(2.0), None, Some(7.0)]);
    assert_eq!(of("a\"b\\c\nd", "allowed"), Some(0.0), "it has asked for nothing yet");
    assert_eq!(of("(others)", "allowed"), Some(4.0));
}

#[test]
fn a_business_takes_no_more_than_is_counted_for_it() {
    let mut stats = stats();
    let mut biz = stats.bizs[0].clone();
    for us in [1, 100, 10_000, 1 << 30] {
        biz.times.add(us, 1 << 40);
    }
    (biz.items, biz.refusals) = ([[1 << 40; OUTCOMES]; 2], [1 << 40; REFUSERS]);
    let mut length = |bizs| {
        let named = |nth| BizSnapshot { name: Some(format!("business-{nth:08}")), ..biz.clone() };
        stats.bizs = (0..bizs).map(named).collect();
        text(&stats).len()
    };
    let bytes = (length(1100) - length(100)) / 1000;
    assert!((BIZ_BYTES / 2..=BIZ_BYTES).contains(&bytes), "{bytes}");
}
