//! A group that moves to another geometry under load: doubled, halved, with wider nodes and other
//! keys, while workers, the keeper, the master or all of them are killed.
//!
//! Each request is atomic: it charges a counter and a receipt of its own. A client that lost an
//! answer queries the receipt afterwards. So every count is known exactly at the end: none is lost,
//! none is doubled, and of a total of M exactly M are admitted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::{Signal, kill};

use super::Life;
use crate::common::items::{post, try_post};
use crate::common::load::UntilDropped;
use crate::common::{Client, Server, Settings, Setup, is_alive, text, wait_until};

const CLIENTS: u64 = 4;
const COUNTERS: u64 = 300;
/// The max of the key with a total.
const FEW: u64 = 500;
/// The most receipts. All of them have room.
const RECEIPTS: u64 = 12_000;

fn map(geometry: &str) -> String {
    format!(
        r#"<map><group name="default" {geometry} hash="siphash" on-full="refuse"/>
  <biz id="1" name="count" key="string"><limit policy="total" max="1000000"/></biz>
  <biz id="2" name="few" key="integer">
    <limit policy="total" max="{FEW}"/><limit policy="total" scope="biz" max="1000000"/>
  </biz>
  <biz id="3" name="receipt" key="string"><limit policy="total" max="1"/></biz>
</map>
"#
    )
}

const FIRST: &str = r#"files="2" key-nodes="1024" chain="28" node-size="128" key-bytes="24""#;
const DOUBLED: &str = r#"files="3" key-nodes="1400" chain="28" node-size="128" key-bytes="24""#;
const HALVED: &str = r#"files="1" key-nodes="1024" chain="56" node-size="128" key-bytes="24""#;
const WIDER: &str = r#"files="2" key-nodes="1023" chain="28" node-size="192" key-bytes="40""#;
const NARROWER: &str = r#"files="4" key-nodes="1024" chain="28" node-size="128" key-bytes="16""#;
const LAST: &str = r#"files="1" key-nodes="2048" chain="28" node-size="192" key-bytes="16""#;

fn setup() -> Setup {
    // With a long lock-timeout nothing is busy on a slow machine, except a request that waits for
    // itself.
    let setup = Setup::new(&Settings { http: "lock-timeout='10s'".into(), ..Settings::default() });
    setup.write_map(&map(FIRST));
    setup
}

/// The requests of all clients.
#[derive(Default)]
struct Run {
    stop: AtomicBool,
    receipts: AtomicU64,
    answered: AtomicU64,
    /// The counter and the receipt of each request, and whether it was charged.
    asked: Mutex<Vec<Asked>>,
}

struct Asked {
    counter: String,
    receipt: String,
    /// `None` if the answer was lost.
    charged: Option<bool>,
}

impl Run {
    fn ask(&self, address: SocketAddr, client: u64) {
        let mut connection = None;
        for nth in 0.. {
            let number = self.receipts.fetch_add(1, Ordering::Relaxed);
            if self.stop.load(Ordering::Relaxed) || number >= RECEIPTS {
                return;
            }
            let counter = match nth % 8 {
                0 => "biz=\"few\" key=\"7\"".to_owned(),
                // Keys of several lengths: the narrowest key field holds some as digests.
                _ => {
                    let key = (nth * 7 + client * 31) % COUNTERS;
                    let width = [5, 16, 20, 24][key as usize % 4];
                    format!("biz=\"count\" key=\"{key:0width$}\"")
                }
            };
            let receipt = format!("biz=\"receipt\" key=\"{client}-{nth}\"");
            let document =
                format!("<request atomic=\"true\"><item {counter}/><item {receipt}/></request>");
            let open = || wait_until("a server accepts", || Client::try_connect(address));
            let used = connection.get_or_insert_with(open);
            let charged = match try_post(used, "/update", &document) {
                Ok(response) => {
                    let errors: Vec<_> =
                        response.items.iter().filter_map(|item| item.values.get("error")).collect();
                    assert!(errors.is_empty(), "a request failed: {errors:?} {document}");
                    Some(!response.refused)
                }
                Err(_) => {
                    connection = None;
                    None
                }
            };
            self.asked.lock().expect("no panic").push(Asked { counter, receipt, charged });
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for `more` answers.
    fn go_on(&self, more: u64) {
        let until = self.answered.load(Ordering::Relaxed) + more;
        wait_until("requests are answered", || {
            let is_over = self.receipts.load(Ordering::Relaxed) >= RECEIPTS;
            (is_over || self.answered.load(Ordering::Relaxed) >= until).then_some(())
        });
    }

    /// Runs the clients beside `act`.
    fn beside(&self, address: SocketAddr, act: impl FnOnce()) {
        thread::scope(|scope| {
            let ends = UntilDropped(&self.stop);
            let clients: Vec<_> =
                (0..CLIENTS).map(|client| scope.spawn(move || self.ask(address, client))).collect();
            act();
            drop(ends);
            clients.into_iter().for_each(|client| client.join().expect("no client fails"));
        });
    }

    /// Compares all counts with the charges.
    fn compare(&self, mut client: Client) {
        let asked = self.asked.lock().expect("no panic");
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        let mut lost = 0;
        for chunk in asked.chunks(500) {
            let receipts = chunk.iter().map(|asked| asked.receipt.as_str());
            let used = used(&mut client, receipts);
            for (Asked { counter, receipt, charged }, used) in chunk.iter().zip(used) {
                let is_charged = charged.map_or(used == 1, |charged| {
                    assert_eq!(used, u64::from(charged), "{receipt}");
                    charged
                });
                lost += u64::from(charged.is_none());
                *expected.entry(counter).or_default() += u64::from(is_charged);
            }
        }
        let counters: Vec<&str> = expected.keys().copied().collect();
        for chunk in counters.chunks(500) {
            let found = used(&mut client, chunk.iter().copied());
            for (counter, found) in chunk.iter().zip(found) {
                assert_eq!(found, expected[counter], "{counter}");
            }
        }
        let few = expected["biz=\"few\" key=\"7\""];
        assert!(few <= FEW, "{few} of {FEW}");
        let tried = asked.iter().filter(|asked| asked.counter.contains("few")).count() as u64;
        assert_eq!(few, FEW.min(tried - lost.min(tried)).max(few), "{tried} tried");
        if tried > FEW + lost {
            assert_eq!(few, FEW, "exactly so many");
        }
    }
}

/// The `used` of some items. A Query with count 0 is never limited.
fn used<'a>(client: &mut Client, items: impl Iterator<Item = &'a str>) -> Vec<u64> {
    let items: String = items.map(|item| format!("<item {item} count=\"0\"/>")).collect();
    let response = post(client, "/query", &format!("<request>{items}</request>"));
    let used = |values: &crate::common::items::Values| {
        values.number("used").unwrap_or_else(|| panic!("{values:?}"))
    };
    response.items.iter().map(|item| used(&item.values)).collect()
}

fn count_of(setup: &Setup, words: &str) -> usize {
    setup.log().matches(words).count()
}

/// Changes the geometry by a reload. Returns the number of moves that have ended before.
fn change(setup: &Setup, geometry: &str) -> usize {
    let before = count_of(setup, "the group has moved");
    setup.write_map(&map(geometry));
    let reload = setup.frs(&["reload"]);
    assert!(reload.status.success(), "{} {}", text(&reload.stdout), text(&reload.stderr));
    before
}

fn wait_for_move(setup: &Setup, before: usize) {
    wait_until("the group has moved", || {
        (count_of(setup, "the group has moved") > before).then_some(())
    });
    let names = std::fs::read_dir(setup.path("data")).expect("readable");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains("next")).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn verify(setup: &Setup) {
    let verified = setup.inspect(&["verify", "data"]);
    let said = text(&verified.stdout);
    assert!(verified.status.success() && said.contains("0 faults"), "{said}");
}

/// Kills a process of this role.
fn one_of(server: &Server<'_>, role: &str) {
    let victim = wait_until("it is attached", || server.attached(role).first().copied());
    let _ = kill(victim, Signal::SIGKILL);
}

// Shows: growth.
#[test]
fn every_geometry_changes_under_load_and_no_count_is_lost() {
    let setup = setup();
    let server = setup.start();
    let run = Run::default();
    run.beside(setup.address, || {
        run.go_on(1500);
        for geometry in [DOUBLED, HALVED, WIDER, NARROWER] {
            let before = change(&setup, geometry);
            run.go_on(100);
            wait_for_move(&setup, before);
            verify(&setup);
        }
        run.go_on(500);
    });
    run.compare(server.client());
    let asked = run.asked.lock().expect("no panic");
    assert!(asked.iter().all(|asked| asked.charged.is_some()), "an answer was lost");
    verify(&setup);
}

// Shows: growth.
#[test]
fn a_move_goes_on_whoever_is_killed() {
    let setup = setup();
    let mut server = setup.start();
    let run = Run::default();
    run.beside(setup.address, || {
        run.go_on(2500);
        let before = change(&setup, DOUBLED);
        one_of(&server, "worker");
        one_of(&server, "keeper");
        run.go_on(50);
        one_of(&server, "worker");
        wait_for_move(&setup, before);
        // Kills the master alone: its processes end, and the next start continues the move.
        change(&setup, WIDER);
        kill(server.master(), Signal::SIGKILL).expect("killed");
        server.wait();
        server = setup.start();
        run.go_on(200);
        wait_until("the group has moved", || (!is_moving(&setup)).then_some(()));
        // Kills all processes, at several moments.
        for (nth, geometry) in [HALVED, NARROWER, LAST].into_iter().enumerate() {
            change(&setup, geometry);
            run.go_on(20 * nth as u64);
            server.kill_all_and_wait();
            server = setup.start();
            wait_until("the group has moved", || (!is_moving(&setup)).then_some(()));
        }
        run.go_on(200);
    });
    run.compare(server.client());
    verify(&setup);
}

// Shows: growth.
#[test]
fn a_new_binary_takes_over_while_a_group_moves() {
    let setup = setup();
    let life = Life::start(&setup);
    let run = Run::default();
    run.beside(setup.address, || {
        run.go_on(2000);
        for geometry in [DOUBLED, WIDER] {
            let before = count_of(&setup, "the group has moved");
            // While the keeper is stopped, only used nodes move.
            let keeper = life.keeper();
            kill(keeper, Signal::SIGSTOP).expect("stopped");
            setup.write_map(&map(geometry));
            setup.frs(&["reload"]);
            run.go_on(50);
            assert!(is_moving(&setup));
            let old = life.master();
            kill(old, Signal::SIGUSR2).expect("signalled");
            wait_until("another master serves", || {
                life.try_master().filter(|&pid| pid != old)?;
                (!life.workers().is_empty()).then_some(())
            });
            let _ = kill(keeper, Signal::SIGCONT);
            run.go_on(50);
            wait_until("the old one has ended", || (!is_alive(old)).then_some(()));
            wait_for_move(&setup, before);
        }
        run.go_on(300);
    });
    run.compare(Client::connect(setup.address));
    verify(&setup);
}

fn is_moving(setup: &Setup) -> bool {
    setup.path("data/default.0.next.mmap").exists()
}

// Shows: growth.
#[test]
fn what_would_be_lost_is_refused_and_said_and_lossy_loses_it() {
    let setup = setup();
    let server = setup.start();
    let mut client = server.client();
    for key in 0..60 {
        client.charge("count", &format!("k{key}"), 1);
    }
    setup.write_map(&map(r#"files="1" key-nodes="1" chain="28" node-size="128" key-bytes="24""#));
    let reload = setup.frs(&["reload"]);
    let said = text(&reload.stdout) + &text(&reload.stderr);
    assert!(!reload.status.success(), "{said}");
    let expected = "group default: 32 of 60 nodes in use find no place in the new geometry: to lose \
                    them, run: frs reload --lossy";
    assert!(said.contains(expected), "{said}");
    assert!(!is_moving(&setup));
    // `frs check` predicts the same.
    let output = setup.frs(&["check"]);
    let (check, faults) = (text(&output.stdout), text(&output.stderr));
    let line =
        "a reload moves group default while it serves: 28 live nodes, and 7.6 KiB beside the";
    assert!(check.contains(line), "{check}");
    assert!(faults.contains(&format!("a reload is refused: {expected}")), "{faults}");
    assert!(faults.ends_with("\nrefused: a start or a reload would fail\n"), "{faults}");
    assert_eq!(output.status.code(), Some(1));
    setup.write_map(&map(FIRST).replace("siphash", "bob"));
    let reload = setup.frs(&["reload"]);
    let said = text(&reload.stdout) + &text(&reload.stderr);
    assert!(!reload.status.success() && said.contains("hash is siphash"), "{said}");
    assert!(said.contains("frs-inspect migrate"), "{said}");
    let keys: Vec<String> = (0..60).map(|key| format!("biz=\"count\" key=\"k{key}\"")).collect();
    let mut counts = || used(&mut client, keys.iter().map(String::as_str));
    assert_eq!(counts(), [1; 60]);
    setup.write_map(&map(r#"files="1" key-nodes="1" chain="28" node-size="128" key-bytes="24""#));
    let before = count_of(&setup, "the group has moved");
    let reload = setup.frs(&["reload", "--lossy"]);
    assert!(reload.status.success(), "{}", text(&reload.stderr));
    wait_for_move(&setup, before);
    assert_eq!(counts().iter().sum::<u64>(), 28);
    verify(&setup);
    let check = text(&setup.frs(&["check"]).stdout);
    assert!(!check.contains("a reload"), "{check}");
}

// Shows: growth.
#[test]
fn tools_read_both_and_a_second_change_waits() {
    let setup = setup();
    let server = setup.start();
    let mut client = server.client();
    for key in 0..500 {
        client.charge("count", &format!("k{key}"), 1);
    }
    // While the keeper is stopped, only used nodes move.
    let keeper = server.attached("keeper")[0];
    kill(keeper, Signal::SIGSTOP).expect("stopped");
    setup.write_map(&map(DOUBLED));
    let reload = setup.frs(&["reload"]);
    assert!(text(&reload.stdout).contains("keeper") || reload.status.success());
    client.charge("count", "k7", 1);
    let dump = text(&setup.inspect(&["dump", "data", "--biz", "count"]).stdout);
    assert_eq!(dump.lines().filter(|line| line.contains("count")).count(), 500, "{dump}");
    for (key, found) in [("k7", "2"), ("k8", "1")] {
        let shown = text(&setup.inspect(&["get", "data", "count", key]).stdout);
        assert!(shown.contains(&format!("{found} of 1000000")) || shown.contains(found), "{shown}");
    }
    verify(&setup);
    setup.write_map(&map(WIDER));
    let second = setup.frs(&["reload"]);
    let said = text(&second.stdout) + &text(&second.stderr);
    assert!(said.contains("a second change waits until it has moved"), "{said}");
    setup.write_map(&map(DOUBLED));
    kill(keeper, Signal::SIGCONT).expect("continued");
    wait_for_move(&setup, 0);
    verify(&setup);
    assert_eq!(used(&mut server.client(), ["biz=\"count\" key=\"k7\""].into_iter()), [2]);
}

/// The mapped files of a group that a server's processes still hold after their removal.
fn with_former_files(server: &Server<'_>) -> Vec<String> {
    let all = ["worker", "keeper"].into_iter().flat_map(|role| server.attached(role));
    let maps = |pid| std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let is_former = |line: &&str| line.contains("default.") && line.ends_with("(deleted)");
    all.flat_map(|pid| maps(pid).lines().filter(is_former).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

// Shows: former-files.
#[test]
fn workers_without_requests_give_the_former_files_back() {
    let setup = setup();
    let mut server = setup.start();
    for key in 0..50 {
        server.client().charge("count", &format!("k{key}"), 1);
    }
    let before = change(&setup, DOUBLED);
    wait_for_move(&setup, before);
    wait_until("the former files are given back", || {
        with_former_files(&server).is_empty().then_some(())
    });
    // The same after a start in the middle of a move.
    kill(server.attached("keeper")[0], Signal::SIGSTOP).expect("stopped");
    change(&setup, WIDER);
    server.kill_all_and_wait();
    server = setup.start();
    wait_until("the group has moved", || (!is_moving(&setup)).then_some(()));
    wait_until("the former files are given back", || {
        with_former_files(&server).is_empty().then_some(())
    });
    let status = text(&setup.frs(&["status"]).stdout);
    assert!(!status.contains("mapped"), "{status}");
}
