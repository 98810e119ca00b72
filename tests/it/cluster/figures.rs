//! The figures of several machines that an operator sees: the metrics of requests to the cluster,
//! and a lease in a record.

use std::collections::BTreeMap;

use frs_cluster::connections::Lost;
use frs_cluster::figures::{ClusterFunction, ClusterResult};
use frs_cluster::lease::Taken;
use frs_cluster::ledger::{Answer, Reply};
use redis::cmd;
use serde_json::Value;

use super::host::{Host, conf};
use super::hosts::{self, Shared};
use super::nodes::{MASTERS, Nodes, ledger_in};
use crate::common::plane::{Plane, ask};
use crate::common::{Setup, text, wait_until};

/// The count of each result of a function, since the last call.
fn counted(host: &Host, function: ClusterFunction) -> [u64; ClusterResult::ALL.len()] {
    host.counts.take().requests[function as usize]
}

#[track_caller]
fn interval_is_counted(host: &Host, result: ClusterResult) {
    let counts = counted(host, ClusterFunction::Interval);
    let mut expected = [0; ClusterResult::ALL.len()];
    expected[result as usize] = 1;
    assert_eq!(counts, expected, "{result:?}");
}

/// Asks until a node answers. On a busy machine a heartbeat or an answer may be late, and then its
/// link is down for a moment. Only the last attempt is counted.
#[track_caller]
fn answered(host: &mut Host, ask: impl Fn(&mut Host) -> u64) -> Result<Reply, Lost> {
    wait_until("a node answers", || {
        host.hear();
        host.counts.take();
        let id = ask(host);
        Some(host.answer(id))
            .filter(|answer| !matches!(answer, Err(Lost::Down { .. } | Lost::Broken { .. })))
    })
}

// Shows: seen-of-a-cluster.
#[test]
fn each_result_of_a_message_is_counted() {
    let Some(mut nodes) = Nodes::masters_alone() else { return };
    let mut conf = conf(nodes.seeds());
    conf.timeout_ms = 300;
    let mut host = Host::start(&conf).settled();
    let taken = host.counts.take();
    let learning = taken.requests[ClusterFunction::Heartbeat as usize];
    assert!(learning[ClusterResult::Learning as usize] > 0, "masters learn at first: {learning:?}");
    for function in [
        ClusterFunction::Load,
        ClusterFunction::Info,
        ClusterFunction::Shards,
        ClusterFunction::Secret,
        ClusterFunction::Subscribe,
    ] {
        let counts = taken.requests[function as usize];
        assert!(counts[ClusterResult::Ok as usize] > 0, "{function:?}: {counts:?}");
    }
    let ledger = ledger_in(1, 1);
    host.need_until_granted(&ledger, 1);
    let taken = host.counts.take();
    assert!(taken.times.count() > 0 && taken.times.sum_us > 0, "{:?}", taken.times);
    let ask = |host: &mut Host, ledger: &str, result| {
        let _ = answered(host, |host| host.need(ledger, 1));
        interval_is_counted(host, result);
    };
    ask(&mut host, &ledger, ClusterResult::Ok);
    // A number that this host has used before.
    let claim = frs_cluster::lease::Claim { window: 0, floor: 0, spent: 0, extra: 0, noted: 0 };
    let host_number = std::process::id().into();
    let old = frs_cluster::lease::Take { host: host_number, seq: 1, claim, need: 1, request: 1 };
    let stale = answered(&mut host, |host| host.send(&ledger, old)).expect("an answer");
    assert_eq!(stale.answer, Answer::Taken(Taken::Stale));
    // The links do not count it: only the courier knows whether a later message has overtaken it.
    assert_eq!(counted(&host, ClusterFunction::Interval), [0; ClusterResult::ALL.len()]);
    // A key that is not a ledger.
    let other = ledger_in(1, 2);
    let _: String = nodes.ask(0, cmd("SET").arg(&other).arg("x"));
    ask(&mut host, &other, ClusterResult::Error);
    // A slot that is moving: the first node redirects, the second one answers.
    nodes.begin_to_move(1, 0, 1);
    answered(&mut host, |host| host.need(&ledger_in(1, 3), 1)).expect("an answer");
    let counts = counted(&host, ClusterFunction::Interval);
    assert_eq!(counts[ClusterResult::Moved as usize], 1, "{counts:?}");
    assert_eq!(counts.iter().sum::<u64>(), 2, "{counts:?}");
    // No replica acknowledges, beginning with the check of the secret.
    let mut waits = conf.clone();
    waits.wait_replicas = 1;
    let sure = Host::start(&waits);
    wait_until("the secret is not acknowledged", || {
        let counts = counted(&sure, ClusterFunction::Secret);
        (counts[ClusterResult::Unconfirmed as usize] > 0).then_some(())
    });
    drop(sure);
    // A silent node. A heartbeat may have noticed it before.
    let far = ledger_in(12_000, 2);
    wait_until("a message is lost", || {
        host.hear();
        if !host.links.is_reachable(12_000) {
            return None;
        }
        host.counts.take();
        nodes.stop(2);
        let id = host.need(&far, 1);
        host.answer(id).expect_err("no answer");
        let counts = counted(&host, ClusterFunction::Interval);
        nodes.go_on(2);
        (counts[ClusterResult::Timeout as usize] == 1).then_some(())
    });
    // A node that is gone.
    nodes.kill(2);
    wait_until("it is known to be down", || {
        host.hear();
        (!host.links.is_reachable(12_000)).then_some(())
    });
    host.counts.take();
    let id = host.need(&far, 1);
    host.answer(id).expect_err("no answer");
    interval_is_counted(&host, ClusterResult::Unreachable);
}

/// The count of the result ok for each function.
fn requests(plane: &Plane) -> BTreeMap<String, u64> {
    let page = plane.get("/metrics").body;
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix("frs_cluster_requests_total{function=\"")?;
        let (function, rest) = rest.split_once('"')?;
        let count = rest.strip_prefix(",result=\"ok\"} ")?;
        Some((function.to_owned(), count.parse().expect("a number")))
    });
    samples.collect()
}

/// The functions that a courier calls.
const FUNCTIONS: [&str; 19] = [
    "calendar",
    "drop",
    "epoch",
    "fetch",
    "heartbeat",
    "holders",
    "info",
    "interval",
    "load",
    "publish",
    "put",
    "secret",
    "shards",
    "sliding",
    "sliding_counter",
    "start",
    "subscribe",
    "token",
    "total",
];

// Shows: seen-of-a-cluster.
#[test]
fn every_function_that_the_courier_calls_is_counted() {
    let Some(nodes) = Nodes::start() else { return };
    let shared = |limit: &str| {
        Shared::new("share=\"cluster\" hosts=\"2\" wait=\"200ms\"", &format!("policy={limit}"))
    };
    let limits = [
        shared("\"interval\" interval=\"1h\" max=\"12\""),
        shared("\"calendar\" unit=\"day\" max=\"100\""),
        shared("\"total\" max=\"100\""),
        shared("\"sliding\" interval=\"1h\" max=\"20\""),
        shared("\"token\" rate=\"1/s\" burst=\"100\""),
        shared("\"sliding-counter\" interval=\"1h\" max=\"100\""),
    ];
    let own = "<group name=\"kept\" files=\"1\" key-nodes=\"1\" chain=\"8\" node-size=\"256\" \
               spill=\"true\"/><biz id=\"3001\" name=\"own\" key=\"string\" group=\"kept\">\
               <limit policy=\"interval\" interval=\"1h\" max=\"100\"/></biz></map>";
    let map = hosts::map(&limits).replace("</map>", own);
    // In map.xml groups come before businesses.
    let (group, biz) = own.split_once("<biz").expect("a biz");
    let map = map.replace(group, "").replacen("  <biz", &format!("  {group}\n  <biz"), 1);
    assert!(map.contains(biz));
    let planes = [(); 2].map(|()| hosts::plane(&nodes.seeds(), "timeout=\"500ms\"", &map));
    let servers = planes.each_ref().map(|plane| plane.start(2));
    let mut clients = servers.each_ref().map(|server| server.client());
    let all = || {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for plane in &planes {
            for (function, count) in requests(plane) {
                *sums.entry(function).or_default() += count;
            }
        }
        sums
    };
    assert!(all().keys().eq(FUNCTIONS.iter()), "{:?}", all());
    for client in &mut clients {
        for biz in 1..6 {
            client.get(&format!("/update?biz=b{biz}&key=k"));
        }
    }
    wait_until("the first host has a lease", || {
        (clients[0].get("/update?biz=b0&key=k").status == 200).then_some(())
    });
    // The second host asks until it needs uses that the first one holds: it asks for the holders,
    // and recalls.
    wait_until("each function was called", || {
        (0..13).for_each(|_| {
            clients[1].get("/update?biz=b0&key=k");
        });
        clients.iter_mut().for_each(|client| {
            // There are twice as many keys as their group has nodes, so some records go to the
            // cluster and come back.
            (0..16).for_each(|key| {
                client.get(&format!("/update?biz=own&key=k{key}"));
            });
        });
        all().values().all(|&count| count > 0).then_some(())
    });
    let page = planes[0].get("/metrics").body;
    let times = page.lines().find_map(|line| line.strip_prefix("frs_cluster_seconds_count "));
    assert!(times.expect("a count").parse::<u64>().expect("a number") > 0);
}

// Shows: seen-of-a-cluster.
#[test]
fn counts_of_leases_go_on_though_a_reload_changes_the_cluster() {
    let Some(nodes) = Nodes::start() else { return };
    let biz = "share=\"cluster\" hosts=\"2\" wait=\"500ms\"";
    let map = hosts::map(&[Shared::new(biz, "policy=\"total\" max=\"1000\"")]);
    let plane = hosts::plane(&nodes.seeds(), "timeout=\"500ms\"", &map);
    let server = plane.start(2);
    let needs = || {
        let page = plane.get("/metrics").body;
        let needs = page.lines().find_map(|line| line.strip_prefix("frs_lease_wants_total "));
        needs.expect("a count").parse::<u64>().expect("a number")
    };
    // Each new key needs a lease.
    let use_keys = |name: &str, count: usize| {
        for key in 0..count {
            wait_until("the masters grant", || {
                let target = format!("/update?biz=b0&key={name}{key}");
                (server.client().get(&target).status == 200).then_some(())
            });
        }
    };
    use_keys("before", 9);
    let before = wait_until("they are counted", || Some(needs()).filter(|&needs| needs >= 9));
    let courier = server.attached("courier");
    let srv = std::fs::read_to_string(plane.setup.path("conf/srv.xml")).expect("readable");
    let changed = srv.replace("timeout=\"500ms\"", "timeout=\"600ms\"");
    assert_ne!(changed, srv);
    std::fs::write(plane.setup.path("conf/srv.xml"), changed).expect("written");
    let output = plane.setup.frs(&["reload"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    use_keys("after", 1);
    wait_until("the new one is counted, too", || {
        let now = needs();
        assert!(now >= before, "{now} after {before}");
        (now > before).then_some(())
    });
    assert_eq!(server.attached("courier"), courier, "the courier has not died over it");
}

/// The two lines of a lease that `frs-inspect get` prints, as words.
fn lease_shown(setup: &Setup) -> Vec<String> {
    let output = setup.inspect(&["get", "data", "b0", "alice"]);
    let shown = text(&output.stdout);
    let mut lines = shown.lines().skip_while(|line| !line.starts_with("  lease 1   "));
    let lines: Vec<&str> = [lines.next(), lines.next()].into_iter().flatten().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    let named = format!("{}, {}", lines[0].trim_start_matches("  lease 1   "), lines[1].trim());
    // `frs-inspect` groups digits by three.
    let named = named.replace(", ", "; ").replace(',', " ");
    named.split("; ").map(str::to_owned).collect()
}

/// The lease of the only limit in a document of JSON.
fn lease_of(document: &str, pointer: &str) -> Value {
    let json: Value = serde_json::from_str(document).expect("JSON");
    json.pointer(pointer).unwrap_or_else(|| panic!("{pointer}: {document}")).clone()
}

// Shows: seen-of-a-cluster.
#[test]
fn a_lease_is_shown_with_its_figures() {
    let Some(nodes) = Nodes::start() else { return };
    let limit = "policy=\"interval\" interval=\"1h\" max=\"1000\"";
    let biz = "share=\"cluster\" hosts=\"2\" wait=\"500ms\"";
    let map = hosts::map(&[Shared::new(biz, limit)]);
    let plane = hosts::plane(&nodes.seeds(), "timeout=\"500ms\"", &map);
    // frs-inspect may have to be built first, which takes longer than an idle lease lasts.
    plane.setup.inspect(&["--version"]);
    let mut server = plane.start(2);
    wait_until("the masters grant", || {
        let answer = server.client().get("/update?biz=b0&key=alice&count=5");
        (answer.status == 200).then_some(())
    });
    let mut client = plane.client();
    let mut node = || {
        let accept = "Accept: application/json\r\n";
        let answer = ask(&mut client, "GET", "/node?biz=b0&key=alice", accept, "");
        lease_of(&answer.expect("an answer").body, "/node/limits/0/lease")
    };
    let dump = |format| {
        let output = plane.setup.inspect(&["dump", "data", "--biz", "b0", "--format", format]);
        text(&output.stdout)
    };
    // All formats are read before the lease changes: an idle lease is returned after a while.
    let (lease, dumped, xml, shown) = wait_until("the answer is heard", || {
        let lease = node();
        let looked = (dump("json"), dump("xml"), lease_shown(&plane.setup));
        let is_settled = lease["in-flight"] == false && node()["allowance"] == lease["allowance"];
        is_settled.then_some((lease, looked.0, looked.1, looked.2))
    });
    let allowance = lease["allowance"].as_u64().expect("a number");
    assert!((5..=505).contains(&allowance), "{lease}");
    assert_eq!((&lease["used"], &lease["void"]), (&5.into(), &false.into()));
    assert_eq!(lease["elsewhere"], 1000 - allowance);
    let ends_ms = lease["ends"].as_u64().expect("a number");
    assert!((3_000_000..=3_600_000).contains(&ends_ms), "{lease}");
    assert!(lease["age"].as_u64().expect("a number") < 600_000, "{lease}");
    // A dump shows the same values, in each format with names.
    let dumped = lease_of(&dumped, "/0/limits/0/lease");
    for name in ["allowance", "used", "window", "elsewhere", "in-flight", "void"] {
        assert_eq!(dumped[name], lease[name], "{name}: {dumped}");
    }
    let begin = format!("<lease allowance=\"{allowance}\" used=\"5\" window=\"");
    assert!(xml.contains(&begin) && xml.contains("in-flight=\"false\" void=\"false\"/>"), "{xml}");
    assert_eq!(shown[0], format!("allowance {allowance}"), "{shown:?}");
    assert_eq!(shown[1], "used here 5", "{shown:?}");
    assert!(shown[2].starts_with("window 2") && shown[2].ends_with('Z'), "{shown:?}");
    let ends = shown[3].strip_prefix("ends in 3 ").expect("some hours").strip_suffix(" ms");
    assert!(ends.is_some(), "{shown:?}");
    assert_eq!(shown[4], format!("elsewhere {}", 1000 - allowance), "{shown:?}");
    assert!(shown[5].starts_with("heard ") && shown[5].ends_with(" ms ago"), "{shown:?}");
    assert_eq!(shown[6], "in flight no", "{shown:?}");
    // A message without an answer.
    (0..2 * MASTERS).for_each(|i| nodes.stop(i));
    server.client().get("/update?biz=b0&key=alice&count=900");
    assert_eq!(lease_shown(&plane.setup)[6], "in flight yes");
    // After the loss of runtime.mmap this is another host, and the record's lease belongs to none.
    server.kill_all_and_wait();
    (0..2 * MASTERS).for_each(|i| nodes.go_on(i));
    drop(server);
    std::fs::remove_file(plane.setup.path("data/runtime.mmap")).expect("removed");
    let _server = plane.start(2);
    let shown = lease_shown(&plane.setup);
    assert!(shown.iter().any(|word| word.starts_with("void: ")), "{shown:?}");
}

// Shows: figures-of-the-living.
#[test]
fn a_dead_master_is_shown_until_a_replica_has_followed_it() {
    let Some(mut nodes) = Nodes::start() else { return };
    let shared = Shared::new("share=\"cluster\" hosts=\"1\"", "policy=\"total\" max=\"9\"");
    let plane = hosts::plane(&nodes.seeds(), "timeout=\"500ms\"", &hosts::map(&[shared]));
    let _server = plane.start(2);
    let addresses: Vec<String> = (0..nodes.count()).map(|i| nodes.node(i).to_string()).collect();
    let wait_for = |what: &str, masters: [usize; 3]| {
        let mut expected =
            masters.map(|i| format!("frs_cluster_up{{node=\"{}\"}} 1", addresses[i])).to_vec();
        expected.sort();
        wait_until(what, || {
            let page = plane.get("/metrics").body;
            let mut rows: Vec<&str> =
                page.lines().filter(|line| line.starts_with("frs_cluster_up{")).collect();
            rows.sort_unstable();
            (rows == expected && plane.get("/health").status == 200).then_some(())
        });
    };
    wait_for("all masters are up", [0, 1, 2]);
    nodes.kill(0);
    wait_for("a replica has followed", [MASTERS, 1, 2]);
    nodes.restart(0);
    nodes.wait_until_whole();
    wait_for("the dead one is a replica", [MASTERS, 1, 2]);
}

// Shows: seen-of-a-cluster.
#[test]
fn a_record_that_is_erased_frees_no_uses_in_the_ledger() {
    let Some(nodes) = Nodes::start() else { return };
    let limit = "policy=\"interval\" interval=\"1h\" max=\"10\"";
    let biz = "share=\"cluster\" hosts=\"1\" wait=\"500ms\"";
    let map = hosts::map(&[Shared::new(biz, limit)]);
    let plane = hosts::plane(&nodes.seeds(), "timeout=\"500ms\"", &map);
    let server = plane.start(2);
    wait_until("the masters grant", || {
        let answer = server.client().get("/update?biz=b0&key=alice&count=6");
        (answer.status == 200).then_some(())
    });
    // An answer that is still in flight would create the record again.
    wait_until("the record is gone", || {
        plane.ask("DELETE", "/node?biz=b0&key=alice", "");
        (plane.get("/node?biz=b0&key=alice").status == 404).then_some(())
    });
    let mut client = server.client();
    let passed = (0..20).filter(|_| client.get("/update?biz=b0&key=alice").status == 200).count();
    assert!(passed <= 4, "{passed} of 4 that were left");
    let answer = client.get("/query?biz=b0&key=alice");
    assert_eq!((answer.attribute("used"), answer.attribute("remaining")), (Some("10"), Some("0")));
}
