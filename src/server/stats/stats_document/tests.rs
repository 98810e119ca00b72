//! Tests that read both documents back with independent parsers and compare them.

use quick_xml::events::{BytesStart, Event};
use serde_json::{Map, Value as Json};

use super::*;
use crate::stats::history_document::{BIZ_BYTES, HistoryRange};
use crate::stats::history_file::{HistoryBiz, HistoryRow, Resolution};
use crate::stats::peers::PeerSnapshot;
use crate::stats::snapshot::{HotKey, Rates};
use frs_cluster::figures::{ClusterNodeState, ClusterState, PeerState};
use frs_store::counter::{BizKey, ClientKey, ClientSums, GroupKey, GroupSums, Nodes};

fn stats() -> Stats {
    let mut stats = Stats { version: "1.2.3", now_ms: 5, generation: 2, ..Stats::default() };
    stats.sums.request_times.add(100, 10);
    stats.sums.requests[1][0] = 10;
    stats.sums.item_errors[4] = 1;
    let mut nodes = Nodes { live: 1, expired: 2, free: 3, swept_ms: 4, ..Nodes::default() };
    nodes.chains[56] = 7;
    let mut sums = GroupSums::default();
    sums.nodes = Some(nodes);
    stats.groups.push(GroupSnapshot {
        key: GroupKey::Name("g".into()),
        geometry: None,
        served: false,
        moving: None,
        checkpoint_ms: None,
        sums,
    });
    stats.bizs.push(BizSnapshot {
        key: BizKey::Id(9),
        name: Some("login".into()),
        is_shared: true,
        bounds: Vec::new(),
        limits: vec!["5 in 60 s".into(), "<&\"'\\>".into()],
        items: [[1; OUTCOMES], [2; OUTCOMES]],
        refusals: std::array::from_fn(|refuser| refuser as u64),
        times: Histogram::default(),
        rates: Rates { second: Some([0.5; OUTCOMES]), ..Rates::default() },
        has_holds: true,
        holds: Some(7),
        has_registers: true,
        registers: Some(11),
        hottest: vec![HotKey { key: "al\u{1}ice\n".into(), used: 3, last_ms: 4 }],
    });
    stats.bizs.push(BizSnapshot { key: BizKey::Id(10), ..crate::stats::snapshot::unnamed(10) });
    stats.bizs.push(BizSnapshot { key: BizKey::Unknown, ..crate::stats::snapshot::unnamed(0) });
    let biz = |id, p99_us| HistoryBiz { id, allowed: 7, limited: 8, p99_us };
    let row = HistoryRow {
        time_ms: 60_000,
        requests: 9,
        allowed: 14,
        limited: 16,
        errors: 1,
        p50_us: Some(3),
        p99_us: None,
        bizs: vec![biz(Some(9), Some(5)), biz(Some(77), None), biz(None, None)],
    };
    stats.past = Some(HistoryRange { step: Resolution::Minute, rows: vec![row] });
    stats.processes.push(ProcessSnapshot {
        slot: 1,
        pid: 2,
        role: "worker",
        restarts: Some(6),
        generation: 2,
        cpu_ms: Some(10),
        connections: 3,
        parked: 0,
        requests: 4,
        requests_per_s: Some(2.25),
        cpu_share: None,
    });
    stats
}

/// The names of lists. JSON has the elements of a list in an array.
const LISTS: [&str; 12] = [
    "rows", "requests", "errors", "workers", "groups", "bizs", "clients", "limits", "rates",
    "hottest", "nodes", "machines",
];

/// The content of an XML document as JSON: attributes as members, lists as arrays.
fn from_xml(reader: &mut quick_xml::Reader<&[u8]>, start: &BytesStart<'_>, is_empty: bool) -> Json {
    let name = start.name().as_ref().to_owned();
    let mut object = Map::new();
    for attribute in start.attributes() {
        let attribute = attribute.unwrap();
        let key = attribute.key.as_ref().to_owned();
        let value = quick_xml::escape::unescape(&attribute.value).unwrap().into_owned();
        object.insert(key, Json::String(value));
    }
    let (mut list, mut text) = (Vec::new(), String::new());
    let mut is_open = !is_empty;
    while is_open {
        match reader.read_event().unwrap() {
            Event::End(_) => is_open = false,
            Event::Text(part) => text += part.as_ref(),
            Event::Start(child) => {
                let child = child.into_owned();
                let value = from_xml(reader, &child, false);
                list.push((child.name().as_ref().to_owned(), value));
            }
            Event::Empty(child) => {
                let child = child.into_owned();
                let value = from_xml(reader, &child, true);
                list.push((child.name().as_ref().to_owned(), value));
            }
            other => panic!("{other:?}"),
        }
    }
    if LISTS.contains(&&*name) {
        return Json::Array(list.into_iter().map(|(_, value)| value).collect());
    }
    if name == "chains" || name == "refusals" {
        let numbers = text.split_whitespace().map(|number| Json::String(number.into()));
        return Json::Array(numbers.collect());
    }
    if name == "row" {
        let by_name = list.into_iter().map(|(_, mut child)| {
            let own = child.as_object_mut().and_then(|child| child.remove("name"));
            (own.as_ref().and_then(Json::as_str).expect("a name").to_owned(), child)
        });
        object.insert("biz".to_owned(), Json::Object(by_name.collect()));
        return Json::Object(object);
    }
    for (name, value) in list {
        assert!(object.insert(name, value).is_none());
    }
    Json::Object(object)
}

/// Replaces numbers and booleans by text, as in XML.
fn texts(value: Json) -> Json {
    match value {
        Json::Number(number) => Json::String(number.to_string()),
        Json::Bool(value) => Json::String(value.to_string()),
        Json::Array(values) => Json::Array(values.into_iter().map(texts).collect()),
        Json::Object(members) => {
            Json::Object(members.into_iter().map(|(name, value)| (name, texts(value))).collect())
        }
        other => other,
    }
}

fn xml_as_json(text: &str) -> Json {
    let mut reader = quick_xml::Reader::from_str(text);
    let Event::Start(root) = reader.read_event().unwrap() else { panic!("{text}") };
    assert_eq!(root.name().as_ref(), "stats");
    let root = root.into_owned();
    from_xml(&mut reader, &root, false)
}

/// The same statistics, of a server with a cluster.
fn in_a_cluster() -> Stats {
    let node = |address: &str, is_up| ClusterNodeState { address: address.to_owned(), is_up };
    let mut state = ClusterState::default();
    state.nodes = vec![node("10.0.0.1:6379", true), node("10.0.0.2:6379", false)];
    let mut stats = Stats { has_cluster: true, cluster: Some(state), ..stats() };
    stats.processes[0].parked = 4;
    stats
}

#[test]
fn a_cluster_is_shown_only_where_there_is_one() {
    let of =
        |stats: &Stats| serde_json::from_str::<Json>(&stats_text(stats, Format::Json)).unwrap();
    assert_eq!(of(&stats()).pointer("/cluster"), None);
    let json = of(&in_a_cluster());
    let at = |pointer: &str| json.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    assert_eq!(at("/cluster/nodes/0/address"), "10.0.0.1:6379");
    assert_eq!(
        (at("/cluster/nodes/0/up"), at("/cluster/nodes/1/up")),
        (&true.into(), &false.into())
    );
    // The items of the shared business alone: one Query and two Updates of each outcome.
    assert_eq!(at("/cluster/items"), 3 * OUTCOMES);
    assert_eq!((at("/cluster/waits/now"), at("/cluster/waits/missed")), (&4.into(), &0.into()));
    assert_eq!(
        (at("/cluster/leases/returns"), at("/cluster/leases/unspent")),
        (&0.into(), &0.into())
    );
    assert_eq!(at("/cluster/courier"), false);
    let gone = Stats { cluster: None, ..in_a_cluster() };
    assert_eq!(of(&gone).pointer("/cluster/nodes").unwrap().as_array().unwrap().len(), 0);
}

/// The same statistics, of a server that mirrors records.
fn with_peers() -> Stats {
    let peer = |address: &str, state| PeerSnapshot { address: address.to_owned(), state };
    let up = PeerState { is_up: true, lag_ms: 7, lag_records: 9, ..PeerState::default() };
    let up = PeerState { skew_ms: Some(-1500), ..up };
    let peers = vec![peer("10.0.0.2:7610", up), peer("b\u{1}:1", PeerState::default())];
    let mirror = MirrorSnapshot { peers, is_served: true, is_learning: true };
    Stats { mirror: Some(mirror), ..stats() }
}

#[test]
fn peers_are_shown_only_where_there_are_some() {
    let of =
        |stats: &Stats| serde_json::from_str::<Json>(&stats_text(stats, Format::Json)).unwrap();
    assert_eq!(of(&stats()).pointer("/peers"), None);
    let json = of(&with_peers());
    let peers = json.pointer("/peers").unwrap();
    let facts = ["courier", "learning", "overruns"].map(|name| &peers[name]);
    assert_eq!(facts, [&Json::from(true), &true.into(), &0.into()]);
    let words = ["sent", "again", "outdated", "installed", "older", "void", "full"];
    assert!(words.iter().all(|word| peers["records"][word] == 0));
    let [up, down] = &peers["machines"].as_array().unwrap()[..] else { panic!("two") };
    assert_eq!(
        (&up["address"], &down["address"]),
        (&"10.0.0.2:7610".into(), &"b\u{FFFD}:1".into())
    );
    let facts = ["up", "compared", "lag", "lag-records", "skew"].map(|name| up[name].clone());
    assert_eq!(facts, [true.into(), false.into(), 7.into(), 9.into(), Json::from(-1500)]);
    assert_eq!((&down["up"], down.get("skew")), (&false.into(), None));
}

/// The same statistics, of a server that tells clients apart.
fn with_clients() -> Stats {
    let client = |key, is_known| ClientSnapshot {
        key,
        is_known,
        sums: ClientSums { items: [3, 2, 0, 0, 0, 0, 1], refused: 1 },
    };
    let named = |name: &str, is_known| client(ClientKey::Name(name.to_owned()), is_known);
    let clients =
        vec![named("<&\"shop\u{1}", true), named("gone", false), client(ClientKey::Others, false)];
    Stats { clients, ..stats() }
}

// Shows: counted-by-client.
#[test]
fn clients_are_shown_only_where_they_are_told_apart() {
    let of =
        |stats: &Stats| serde_json::from_str::<Json>(&stats_text(stats, Format::Json)).unwrap();
    assert_eq!(of(&stats()).pointer("/clients"), None);
    let json = of(&with_clients());
    let shop = json.pointer("/clients/0").unwrap();
    assert_eq!(shop["name"], "<&\"shop\u{FFFD}");
    assert_eq!((&shop["items"], &shop["refused"]), (&6.into(), &1.into()));
    assert_eq!(
        (&shop["allowed"], &shop["limited"], &shop["error"]),
        (&3.into(), &2.into(), &1.into())
    );
    assert_eq!(shop.get("removed"), None);
    assert_eq!(json.pointer("/clients/1/removed"), Some(&true.into()));
    assert_eq!(json.pointer("/clients/2/name"), Some(&"(others)".into()));
}

#[test]
fn both_formats_say_the_same() {
    for stats in [stats(), in_a_cluster(), with_peers(), with_clients(), Stats::default()] {
        let json: Json = serde_json::from_str(&stats_text(&stats, Format::Json)).unwrap();
        assert_eq!(texts(json), xml_as_json(&stats_text(&stats, Format::Xml)));
    }
}

#[test]
fn figures_stand_where_they_belong() {
    let json: Json = serde_json::from_str(&stats_text(&stats(), Format::Json)).unwrap();
    let at = |pointer: &str| json.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
    assert_eq!(at("/server/version"), "1.2.3");
    assert_eq!(at("/server/degraded"), false);
    assert_eq!(at("/latency/p99-us"), 112);
    assert_eq!(at("/requests/0/command"), "update");
    assert_eq!(at("/errors/0/error"), "busy");
    assert_eq!(at("/workers/0/restarts"), 6);
    assert_eq!(at("/workers/0/requests-per-second"), 2.25);
    assert_eq!(json.pointer("/workers/0/cpu-share"), None);
    assert_eq!(at("/groups/0/chains").as_array().unwrap().len(), 57);
    assert_eq!(at("/groups/0/chains/56"), 7);
    assert_eq!(at("/bizs/0/id"), 9);
    assert_eq!(at("/bizs/0/updates/limited"), 2);
    assert_eq!(json.pointer("/bizs/0/removed"), None);
    assert_eq!((at("/bizs/1/name"), at("/bizs/1/removed")), (&"10".into(), &true.into()));
    assert_eq!(json.pointer("/bizs/2/removed"), None, "it is none");
    assert_eq!(at("/bizs/0/limits/1/words"), "<&\"'\\>");
    assert_eq!(at("/bizs/0/rates/0/over"), 1000);
    assert_eq!(at("/bizs/0/rates/0/allowed"), 0.5);
    assert_eq!(at("/bizs/0/hottest/0/key"), "al\u{FFFD}ice\n");
}

/// Pins the bytes of both forms, for a server with figures of each kind and for one without,
/// because clients compare and cache the documents.
#[test]
fn documents_are_the_same_byte_for_byte() {
    let full = stats();
    assert_eq!(stats_text(&full, Format::Json), include_str!("tests/full.json"));
    assert_eq!(stats_text(&full, Format::Xml), include_str!("tests/full.xml"));
    assert_eq!(stats_text(&Stats::default(), Format::Json), include_str!("tests/empty.json"));
    assert_eq!(stats_text(&Stats::default(), Format::Xml), include_str!("tests/empty.xml"));
}

#[test]
fn a_business_of_a_row_takes_no_more_than_is_counted_for_it() {
    let name = "n".repeat(64);
    let length = |bizs: u32| {
        let mut stats = Stats::default();
        let biz = HistoryBiz {
            id: Some(1),
            allowed: u64::MAX,
            limited: u64::MAX,
            p99_us: Some(u32::MAX),
        };
        stats.bizs =
            vec![BizSnapshot { name: Some(name.clone()), ..crate::stats::snapshot::unnamed(1) }];
        let row = HistoryRow { bizs: vec![biz; bizs as usize], ..HistoryRow::default() };
        stats.past = Some(HistoryRange { step: Resolution::Minute, rows: vec![row] });
        [stats_text(&stats, Format::Json).len(), stats_text(&stats, Format::Xml).len()]
    };
    let ([json, xml], [more_json, more_xml]) = (length(1), length(2));
    assert!(more_json - json <= BIZ_BYTES && more_xml - xml <= BIZ_BYTES, "{}", more_xml - xml);
}
