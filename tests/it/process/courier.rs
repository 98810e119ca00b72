//! The courier, end to end: which servers have one, its deaths, upgrades, reloads and its end.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::load::{under_load, wait_for_more};
use crate::common::plane::Plane;
use crate::common::{Server, Settings, Setup, descriptors, files, is_alive, text, wait_until};

/// Businesses whose keys are digests, one local and one shared.
const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="256"/>
  <biz id="2" name="own" key="digest"><limit policy="interval" interval="1h" max="9"/></biz>
  <biz id="3" name="shared" key="digest" share="exact" on-down="local" wait="1000ms">
    <limit policy="total" max="9"/></biz>
</map>
"#;

fn with_cluster() -> Settings {
    // No node listens there.
    let more = "<cluster name=\"test\" secret-file=\"conf/cluster.secret\">\
                <node>127.0.0.1:1</node></cluster>";
    Settings { more: more.to_owned(), ..Settings::default() }
}

fn write_secret(setup: &Setup, digit: &str) {
    files::write_secret(&setup.path("conf/cluster.secret"), digit.repeat(64));
}

fn setup() -> Setup {
    let setup = Setup::new(&with_cluster());
    write_secret(&setup, "a");
    setup
}

fn courier(server: &Server<'_>) -> Pid {
    wait_until("there is one courier", || match server.attached("courier")[..] {
        [courier] => Some(courier),
        _ => None,
    })
}

fn doorbells(pid: Pid) -> usize {
    let all = descriptors(pid).expect("a process");
    all.iter().filter(|target| *target == Path::new("anon_inode:[eventfd]")).count()
}

#[test]
fn a_server_without_a_cluster_has_neither_courier_nor_doorbells() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    assert!(server.attached("courier").is_empty());
    for pid in workers.into_iter().chain(server.attached("keeper")).chain([server.master()]) {
        assert_eq!(doorbells(pid), 0);
    }
}

#[test]
fn a_reload_adds_a_cluster_and_takes_it_away() {
    let setup = Setup::new(&Settings::default());
    let unshared = MAP.replace(" share=\"exact\" on-down=\"local\" wait=\"1000ms\"", "");
    setup.write_map(&unshared);
    let server = setup.start();
    let mut before = server.wait_for_workers(2);
    write_secret(&setup, "a");
    for _ in 0..2 {
        setup.write_srv(&with_cluster());
        setup.write_map(MAP);
        let reload = setup.frs(&["reload"]);
        assert_eq!(reload.status.code(), Some(0), "{}", text(&reload.stderr));
        let courier = courier(&server);
        let workers = wait_until("workers with doorbells serve", || {
            let now = server.workers();
            (now.len() == 2 && now.iter().all(|pid| !before.contains(pid))).then_some(now)
        });
        assert!(doorbells(courier) > 2 && workers.iter().all(|&pid| doorbells(pid) >= 2));
        server.client().charge("shared", "alice", 1);

        setup.write_srv(&Settings::default());
        setup.write_map(&unshared);
        let reload = setup.frs(&["reload"]);
        assert_eq!(reload.status.code(), Some(0), "{}", text(&reload.stderr));
        wait_until("the courier ends", || server.attached("courier").is_empty().then_some(()));
        assert_eq!(server.workers(), workers, "they stay");
        assert_eq!(doorbells(server.master()), 0);
        before = workers;
    }
    assert!(!setup.log().contains("died"), "{}", setup.log());
}

#[test]
fn a_cluster_whose_secret_cannot_be_read_is_not_added() {
    let setup = Setup::new(&Settings::default());
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    setup.write_srv(&with_cluster());
    let reload = setup.frs(&["reload"]);
    assert_eq!(reload.status.code(), Some(1));
    assert!(text(&reload.stderr).contains("no such file"), "{}", text(&reload.stderr));
    assert!(server.attached("courier").is_empty());
    assert_eq!((server.workers(), doorbells(server.master())), (workers, 0));
}

#[test]
fn a_dead_courier_is_replaced_and_no_request_fails() {
    let setup = setup();
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    let mut last = courier(&server);
    assert!(doorbells(last) > 2);
    assert_eq!(server.attached("keeper").into_iter().map(doorbells).sum::<usize>(), 0);
    under_load(setup.address, |answered| {
        for _ in 0..8 {
            kill(last, Signal::SIGKILL).expect("killed");
            last = wait_until("another serves", || match server.attached("courier")[..] {
                [next] => (next != last).then_some(next),
                _ => None,
            });
            wait_for_more(answered, 20);
        }
    });
    assert_eq!(server.workers(), workers, "none of them noticed");
}

#[test]
fn a_stopped_server_ends_its_courier_in_time() {
    for signal in [Signal::SIGTERM, Signal::SIGQUIT] {
        let setup = setup();
        let mut server = setup.start();
        server.wait_for_workers(2);
        let courier = courier(&server);
        // It has begun, and asks a cluster that is not there.
        wait_until("it asks", || setup.log().contains("cannot be used").then_some(()));
        server.signal(Signal::SIGUSR1);
        server.signal(signal);
        assert!(server.wait().success());
        assert!(!is_alive(courier));
        let log = setup.log();
        let ended = |role: &str| log.find(&format!("{role} has ended")).expect(role);
        assert!(ended("worker 0").max(ended("worker 1")) < ended("courier"), "{log}");
        assert!(ended("courier") < ended("keeper") && !log.contains("died"), "{log}");
    }
}

#[test]
fn the_courier_follows_a_killed_master() {
    let setup = setup();
    let mut server = setup.start();
    server.wait_for_workers(2);
    let courier = courier(&server);
    kill(server.master(), Signal::SIGKILL).expect("killed");
    server.wait();
    wait_until("it has ended", || (!is_alive(courier)).then_some(()));
}

/// The keys of a biz's nodes, as frs-inspect shows them.
fn keys(setup: &Setup, biz: &str) -> Vec<String> {
    let output = setup.inspect(&["dump", "data", "--biz", biz, "--format", "json"]);
    let shown = text(&output.stdout);
    let keys = shown.split("digest:").skip(1).map(|rest| rest[..32].to_owned());
    keys.collect()
}

#[test]
fn machines_with_one_secret_name_long_keys_of_shared_businesses_alike() {
    let named = ["a", "a", "b"].map(|digit| {
        let setup = setup();
        write_secret(&setup, digit);
        setup.write_map(MAP);
        let server = setup.start();
        server.wait_for_workers(2);
        let mut client = server.client();
        client.charge("own", "alice", 1);
        client.charge("shared", "alice", 1);
        let named = ["own", "shared"].map(|biz| keys(&setup, biz));
        assert!(named.iter().all(|keys| keys.len() == 1), "{named:?}");
        // The tool finds the node that the worker has created.
        let found = setup.inspect(&["get", "data", "shared", "alice"]);
        assert!(found.status.success() && text(&found.stdout).contains(&named[1][0]), "{found:?}");
        named
    });
    let [[own, shared], [other_own, other_shared], [_, keyed]] = named;
    assert_ne!(own, other_own, "each has a seed of its own");
    assert_eq!(shared, other_shared);
    assert_ne!(shared, keyed);
}

#[test]
fn a_cluster_that_is_down_is_told_and_refuses_no_request() {
    let plane = Plane::new(2);
    write_secret(&plane.setup, "a");
    let Settings { more, .. } = with_cluster();
    let admin = format!("<admin listen=\"{}\" token-file=\"conf/token\"/>", plane.address);
    plane.setup.write_srv(&Settings { more: admin + &more, ..Settings::default() });
    plane.setup.write_map(MAP);
    let server = plane.start(2);
    server.client().charge("own", "alice", 1);
    server.client().charge("shared", "alice", 1);
    let waited =
        |outcome| plane.metric(&format!("frs_items_waited_total{{outcome=\"{outcome}\"}}"));
    let all = ["unreachable", "answered", "missed"].map(waited);
    assert_eq!(all, [Some(1), Some(0), Some(0)]);
    wait_until("nothing waits", || (plane.metric("frs_parked") == Some(0)).then_some(()));
    // The courier publishes its figures once a second.
    wait_until("it is counted", || (plane.metric("frs_lease_wants_total") > Some(0)).then_some(()));
    let health = plane.get("/health");
    assert_eq!(health.status, 200);
    assert!(health.body.contains("cluster: no node answers"), "{}", health.body);
}
