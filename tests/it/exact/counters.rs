//! A server's counters, end to end: they count its requests exactly, over all workers and across
//! the death of any worker.

use std::collections::BTreeMap;

use frs_server::stats::snapshot::collect;

use crate::common::{Client, Server, Settings, Setup, wait_until};
use frs_engine::Outcome;
use frs_server::protocol::Format;
use frs_server::protocol::call::{Call, status_word};
use frs_server::stats::metrics;
use frs_server::stats::snapshot::Stats;
use frs_server::stats::stats_document::stats_text;
use frs_store::Counter;
use frs_store::counter::{GroupCounter, ITEM_ERRORS, OUTCOMES};
use nix::sys::signal::{Signal, kill};

fn stats(setup: &Setup) -> Stats {
    collect(&setup.path("data"))
}

/// The counts that must be exact even after a death.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Exact {
    requests: BTreeMap<(&'static str, &'static str), u64>,
    items: BTreeMap<String, [[u64; OUTCOMES]; 2]>,
    errors: [u64; ITEM_ERRORS],
    creates: u64,
}

impl Exact {
    fn of(stats: &Stats) -> Exact {
        let all = Call::ALL.iter().zip(&stats.sums.requests).flat_map(|(call, counts)| {
            counts
                .iter()
                .enumerate()
                .map(|(kind, count)| ((call.word(), status_word(kind)), *count))
        });
        Exact {
            // The tests' own waiting sends requests to /health.
            requests: all.filter(|((call, _), count)| *call != "health" && *count > 0).collect(),
            items: stats.bizs.iter().map(|biz| (biz.label(), biz.items)).collect(),
            errors: stats.sums.item_errors,
            creates: stats.groups[0].sums.count(GroupCounter::Creates),
        }
    }
}

/// Sends one request of each kind, and adds what the server must have counted.
fn ask_each(client: &mut Client, round: u64, expected: &mut Exact) {
    let mut request = |asked, status| *expected.requests.entry((asked, status)).or_default() += 1;
    assert_eq!(client.get(&format!("/update?biz=plenty&key=k{round}")).status, 200);
    request("update", "200");
    assert_eq!(client.get("/query?biz=three&key=full").status, 429);
    request("query", "429");
    assert_eq!(client.get("/update?biz=three&key=full&deny=418").status, 418);
    request("update", "4xx");
    assert_eq!(client.get("/authz/plenty:403/any/path").status, 200);
    request("authz", "200");
    assert_eq!(client.get("/update?biz=nobody&key=k").status, 400);
    request("update", "400");
    assert_eq!(client.get("/nowhere").status, 404);
    request("other", "404");
    let body = "<request><item biz=\"plenty\" key=\"p\"/><item biz=\"1\" key=\"\"/>\
                <item biz=\"three\" key=\"unused\"/></request>";
    let length = body.len();
    client.send(&format!(
        "POST /query HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    assert_eq!(client.answer().status, 200);
    request("query", "200");
    let mut item = |biz: &str, is_update, outcome: Outcome| {
        let counts = expected.items.entry(biz.to_owned()).or_default();
        counts[usize::from(is_update)][outcome as usize] += 1;
    };
    item("plenty", true, Outcome::Allowed);
    item("three", false, Outcome::Limited);
    item("three", true, Outcome::Limited);
    item("plenty", true, Outcome::Allowed);
    item("(unknown)", true, Outcome::Error);
    item("plenty", false, Outcome::Allowed);
    item("plenty", false, Outcome::Error);
    item("three", false, Outcome::Allowed);
    expected.errors[0] += 1;
    expected.errors[1] += 1;
    expected.creates += 1;
}

/// Connects until each of the workers has an open connection.
fn clients_of_all(server: &Server<'_>, workers: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    wait_until("each worker has a client", || {
        let mut client = server.client();
        assert_eq!(client.get("/health").status, 200);
        clients.push(client);
        let stats = stats(server.setup);
        let busy = stats.processes.iter().filter(|process| process.connections > 0);
        (busy.count() == workers).then_some(())
    });
    clients
}

// Shows: counters-exact.
#[test]
fn sums_are_exact_over_all_workers_and_their_deaths() {
    const WORKERS: usize = 3;
    let setup = Setup::new(&Settings { workers: WORKERS as u16, ..Settings::default() });
    let server = setup.start();
    let workers = server.wait_for_workers(WORKERS);
    assert_eq!(stats(&setup).processes_of("worker"), WORKERS);

    let mut expected = Exact::of(&stats(&setup));
    assert!(expected.requests.is_empty() && expected.creates == 0, "{expected:?}");
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!(client.get("/update?biz=three&key=full").status, 200);
    }
    assert_eq!(client.get("/authz/plenty").status, 200);
    expected.requests.insert(("update", "200"), 3);
    expected.requests.insert(("authz", "200"), 1);
    expected.items.insert("three".into(), [[0; OUTCOMES], [3, 0, 0, 0, 0, 0, 0]]);
    expected.items.insert("plenty".into(), [[0; OUTCOMES], [1, 0, 0, 0, 0, 0, 0]]);
    expected.creates = 2;

    let mut round = 0;
    for dead in 0..3 {
        for client in &mut clients_of_all(&server, WORKERS) {
            ask_each(client, round, &mut expected);
            round += 1;
        }
        assert_eq!(Exact::of(&stats(&setup)), expected, "before a death");
        let Some(&worker) = workers.get(dead).filter(|_| dead < 2) else { break };
        kill(worker, Signal::SIGKILL).expect("killed");
        let stats_then = wait_until("it is replaced", || {
            let stats = stats(&setup);
            // The dead worker is listed until its slot is free. A new worker is listed before its
            // place is recorded.
            let is_gone =
                stats.processes.iter().all(|process| process.pid != worker.as_raw() as u32);
            let placed = stats.processes.iter().filter(|process| process.restarts.is_some());
            let there = stats.processes_of("worker") == WORKERS && placed.count() == WORKERS + 1;
            let counted = stats.master.restarts == [dead as u64 + 1, 0, 0, 0];
            (is_gone && there && counted).then_some(stats)
        });
        let restarts = stats_then.processes.into_iter().filter_map(|process| process.restarts);
        let mut restarts: Vec<u64> = restarts.collect();
        restarts.sort_unstable();
        let expected_restarts = if dead == 0 { [0, 0, 0, 1] } else { [0, 0, 1, 1] };
        assert_eq!(restarts, expected_restarts, "of keeper and workers");
        assert_eq!(Exact::of(&stats(&setup)), expected, "after a death");
    }
    let text = metrics::text(&stats(&setup));
    for line in [
        "frs_process_restarts_total{role=\"worker\"} 2",
        "frs_processes{role=\"worker\"} 3",
        "frs_recoveries_total 2",
        "frs_item_errors_total{error=\"busy\"} 0",
        &format!("frs_creates_total{{group=\"default\"}} {}", expected.creates),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
}

// Shows: counters-exact.
#[test]
fn connections_bytes_and_times_are_those_of_the_clients() {
    let setup = Setup::new(&Settings { workers: 1, ..Settings::default() });
    let server = setup.start();
    let count = |counter| stats(&setup).sums.count(counter);
    wait_until("who waited for the server has gone", || {
        (stats(&setup).connections() == 0).then_some(())
    });
    let before = stats(&setup).sums;
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let request = "GET /update?biz=plenty&key=k HTTP/1.1\r\nHost: t\r\n\r\n";
    let mut received = 0;
    for client in &mut clients {
        client.send(request);
        let answer = client.answer();
        received += (answer.head.len() + answer.body.len()) as u64;
    }
    let accepted = before.count(Counter::Connections) + 3;
    let bytes_in = before.count(Counter::BytesIn) + 3 * request.len() as u64;
    // Requests are counted when answers are written, a moment after they were read.
    wait_until("all of it is counted", || {
        let stats = stats(&setup);
        let timed = stats.sums.request_times.count() == before.request_times.count() + 3;
        (timed && stats.connections() == 3 && stats.sums.count(Counter::BytesIn) == bytes_in)
            .then_some(())
    });
    assert_eq!(count(Counter::Connections), accepted);
    assert_eq!(count(Counter::BytesOut), before.count(Counter::BytesOut) + received);
    let took_us = stats(&setup).sums.request_times.sum_us - before.request_times.sum_us;
    assert!((3..20_000_000).contains(&took_us), "{took_us}");
    drop(clients);
    wait_until("they are gone", || (stats(&setup).connections() == 0).then_some(()));
    assert_eq!(count(Counter::Connections), accepted);
}

#[test]
fn who_is_late_or_one_too_many_is_counted() {
    let http = "max-connections=\"1\" request-timeout=\"100ms\"".to_owned();
    let setup = Setup::new(&Settings { workers: 1, http, ..Settings::default() });
    let server = setup.start();
    let counts = || {
        let sums = stats(&setup).sums;
        [Counter::ConnectionsRefused, Counter::Timeouts].map(|counter| sums.count(counter))
    };
    // Until the connection that waited for the server is gone, others are refused.
    let mut client = wait_until("there is room", || {
        let mut client = server.client();
        client.try_get("/health").ok().filter(|answer| answer.status == 200).map(|_| client)
    });
    let [refused, late] = counts();
    assert_eq!(late, 0);
    assert_eq!(server.client().answer().status, 503);
    assert_eq!(counts(), [refused + 1, 0]);
    client.send("GET /query?biz=plenty");
    assert_eq!(client.answer().status, 408);
    assert_eq!(counts(), [refused + 1, 1]);
    assert!(stats(&setup).sums.requests[Call::Other as usize].iter().sum::<u64>() >= 1);
}

#[test]
fn master_and_keeper_are_counted_and_the_documents_are_whole() {
    let settings = Settings { more: "<data flush=\"20ms\"/>".to_owned(), ..Settings::default() };
    let setup = Setup::new(&settings);
    let server = setup.start();
    server.wait_for_workers(2);
    let first = stats(&setup);
    assert_eq!((first.master.reloads, first.master.restarts), ([0, 0], [0, 0, 0, 0]));
    let age_ms = first.now_ms - first.master.started_ms;
    assert!((0..60_000).contains(&age_ms), "{age_ms}");

    assert_eq!(setup.frs(&["reload"]).status.code(), Some(0));
    setup.write_map("<map><group/></map>");
    assert_eq!(setup.frs(&["reload"]).status.code(), Some(1));
    let reloaded = stats(&setup);
    assert_eq!(reloaded.master.reloads, [1, 1]);
    assert!(reloaded.master.reloaded_ms.iter().all(|&at_ms| at_ms >= first.now_ms));
    assert_eq!(reloaded.generation, first.generation + 1);

    let keeper = server.attached("keeper")[0];
    kill(keeper, Signal::SIGKILL).expect("killed");
    wait_until("the keeper is replaced", || {
        let stats = stats(&setup);
        (stats.master.restarts == [0, 1, 0, 0] && stats.processes_of("keeper") == 1).then_some(())
    });
    assert_eq!(server.client().get("/update?biz=plenty&key=k").status, 200);
    let on_disk = !frs_base::sys::is_in_memory(&setup.path("data")).expect("a directory");
    let all = wait_until("the new keeper has looked at all nodes, and flushed", || {
        let stats = stats(&setup);
        let nodes = stats.groups[0].sums.nodes.as_ref()?;
        let flushed = !on_disk || stats.sums.flush_times.count() > 0;
        // While the slot of the dead process is recovered, its owner counts as living.
        let alive = stats.processes.iter().all(|process| process.cpu_ms.is_some());
        (nodes.live + nodes.free == 2 * 64 * 8 && flushed && alive).then_some(stats)
    });
    assert_eq!(all.sums.count(Counter::FlushErrors), 0);
    assert_eq!(all.bizs[0].limits.len(), 1);
    assert!(stats_text(&all, Format::Json).starts_with("{\"server\":{\"version\":"));
    assert!(stats_text(&all, Format::Xml).starts_with("<stats><server version="));
    assert!(metrics::text(&all).contains("frs_nodes{group=\"default\",state=\"free\"}"));
}
