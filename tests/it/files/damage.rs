//! Files that are cut, swapped, overwritten, missing or from another boot are noticed and named,
//! never served from, and never overwritten.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use super::is_store;
use crate::common::files::{
    GROUP_BOOT, GROUP_CLEAN, RUNTIME_BOOT, RUNTIME_CRC, load, open, seal, store,
};
use crate::common::{Answer, Client, Server, Setup, text, wait_until};

const MAP: &str = r#"<map>
  <group name="default" files="2" key-nodes="64" chain="8" node-size="128"/>
  <group name="second" files="1" key-nodes="64" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string"><limit policy="interval" interval="1h" max="1000"/></biz>
  <biz id="2" name="other" group="second" key="string"><limit policy="total" max="1000"/></biz>
</map>"#;

// Offsets in the files, in words: the map of src/store/file/layout.rs.
const PAGE: u64 = 512;
const NODE: u64 = 128 / 8;
const KEY_NODE: u64 = 8 + 8 * NODE;
const KEY_NODES: u64 = 64;
const GROUP_CRC: u64 = 14;
const SLOTS: u64 = PAGE + 4096 * 16;
const INTENTS: u64 = 2 * PAGE + 64 * 80;
const UNDO: u64 = INTENTS + 4096 * 2;
const SLOT: u64 = UNDO + 65536 * 3 + 4096 * 16 + 1024 * (1 + 40);

fn setup() -> Setup {
    Setup::of_map(MAP)
}

fn charge(client: &mut Client, biz: &str, times: u64) {
    for _ in 0..times {
        assert_eq!(client.get(&format!("/update?biz={biz}&key=kept")).status, 200);
    }
}

fn used(client: &mut Client, biz: &str) -> u64 {
    let answer = client.get(&format!("/query?biz={biz}&key=kept"));
    answer.attribute("used").and_then(|used| used.parse().ok()).expect("used")
}

/// A setup whose server counted seven uses in each group, and was killed.
fn killed() -> Setup {
    let setup = setup();
    let mut server = setup.start();
    server.wait_for_workers(2);
    let mut client = server.client();
    charge(&mut client, "plenty", 7);
    charge(&mut client, "other", 7);
    server.kill_all();
    drop(server);
    std::fs::remove_file(setup.path("log")).expect("a log");
    setup
}

fn group_file(setup: &Setup, name: &str, file: u32) -> PathBuf {
    setup.path(&format!("data/{name}.{file}.mmap"))
}

fn runtime_file(setup: &Setup) -> PathBuf {
    setup.path("data/runtime.mmap")
}

/// The file and the first word of the node of key `kept` of biz 1.
fn find_node(setup: &Setup) -> (u32, File, u64) {
    let key = u64::from_le_bytes(*b"kept\0\0\0\0");
    for number in 0..2 {
        let file = open(&group_file(setup, "default", number));
        for key_node in 0..KEY_NODES {
            for place in 0..8 {
                let at = PAGE + key_node * KEY_NODE + 8 + place * NODE;
                if load(&file, at + 1) as u32 == 1 && load(&file, at + 3) == key {
                    return (number, file, at);
                }
            }
        }
    }
    panic!("no node of the key");
}

/// The offset of the word with the uses, in a node with a key of 24 bytes.
const USED: u64 = 3 + 3 + 1;

/// Checks that a strict start is refused with these words, and changes no group file.
fn expect_refusal(setup: &Setup, said: &[&str]) {
    let files = ["default.0", "default.1", "second.0"];
    let bytes = || files.map(|name| std::fs::read(setup.path(&format!("data/{name}.mmap"))).ok());
    let before = bytes();
    let output = setup.frs(&["serve", "--strict"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let heard = text(&output.stderr);
    for expected in said {
        assert!(heard.contains(expected), "{expected:?} in {heard}");
    }
    assert!(bytes() == before, "a file was changed");
}

fn expect_counts(server: &Server<'_>, plenty: u64, other: u64) {
    let mut client = server.client();
    assert_eq!((used(&mut client, "plenty"), used(&mut client, "other")), (plenty, other));
}

#[test]
fn a_cut_file_is_not_started_from() {
    let setup = killed();
    let path = group_file(&setup, "default", 1);
    let bytes = std::fs::read(&path).expect("readable");
    for length in [0, 100, 4096, bytes.len() - 1, bytes.len() + 4096] {
        std::fs::write(&path, &bytes).expect("written");
        open(&path).set_len(length as u64).expect("cut");
        let (found, needed) = (format!("found {length}"), "default.1.mmap: length");
        expect_refusal(&setup, &[needed, &found, "expected "]);
    }
    std::fs::write(&path, &bytes).expect("written");
    expect_counts(&setup.start(), 7, 7);
}

#[test]
fn scribbled_headers_are_named_and_left_alone() {
    let setup = killed();
    let path = group_file(&setup, "default", 0);
    let file = open(&path);
    let bytes = std::fs::read(&path).expect("readable");
    for (at, word, sealed, said) in [
        (0, 0x1234, true, "magic: found 4660, expected "),
        (1, 7, true, "version and layout: found 7, expected "),
        (2, 7, false, "header CRC: found "),
        (4, 63 | 8 << 32, false, "header CRC: found "),
        (GROUP_CRC, 7, false, "header CRC: found 7, expected "),
        // Intact files that belong to another file, group or configuration.
        (2, 7, true, "default.1.mmap: group id: found "),
        (3, 2 | 1 << 32, true, "file index: found 1, expected 0"),
        (4, 65 | 8 << 32, true, "length: found "),
        (4, 128 | 4 << 32, true, "length: found "),
        (6, 9, true, "hash: found 9, expected "),
        (
            10,
            u64::from_le_bytes(*b"defauls\0"),
            true,
            "group name: found defauls, expected default",
        ),
    ] {
        store(&file, at, word);
        if sealed {
            seal(&file, GROUP_CRC);
        }
        expect_refusal(&setup, &["data/default.", said]);
        file.write_all_at(&bytes, 0).expect("written");
    }
    setup.write_map(&MAP.replacen("chain=\"8\"", "chain=\"8\" hash=\"bob\"", 1));
    expect_refusal(&setup, &["group default: hash: the files have siphash, map.xml says bob"]);
    setup.write_map(MAP);
    expect_counts(&setup.start(), 7, 7);
}

#[test]
fn a_missing_file_is_a_fault_and_a_creation_that_was_not_finished_is_redone() {
    let setup = killed();
    let [first, second] = [0, 1].map(|file| group_file(&setup, "default", file));
    let aside = setup.path("aside");
    std::fs::rename(&second, &aside).expect("moved");
    expect_refusal(&setup, &["group default", "default.1.mmap is missing"]);
    assert!(!second.exists(), "not made up");
    std::fs::rename(&aside, &second).expect("moved");
    let server = setup.start();
    expect_counts(&server, 7, 7);
    drop(server);
    let inode = second.metadata().expect("there").ino();
    std::fs::remove_file(&first).expect("removed");
    expect_counts(&setup.start(), 0, 7);
    assert_ne!(second.metadata().expect("there").ino(), inode, "made anew, too");
}

/// Makes the dead worker's slot look as if it had died in the middle of a transaction. Its undo log
/// would change a word of the node of `kept`.
fn leave_transaction_open(setup: &Setup) -> (u32, u64) {
    let (number, group, node) = find_node(setup);
    let (id, runtime) = (load(&group, 2), open(&runtime_file(setup)));
    let slot = (0..256)
        .map(|slot| SLOTS + slot * SLOT)
        .find(|&slot| load(&runtime, slot) as u32 == 1)
        .expect("the slot of one who was killed");
    let (owner, epoch) = ((slot - SLOTS) / SLOT, load(&runtime, slot) >> 32);
    let token = owner | (epoch << 8);
    let key_node = (node - PAGE) / KEY_NODE;
    store(&group, PAGE + key_node * KEY_NODE, token);
    store(&runtime, slot + INTENTS, id);
    store(&runtime, slot + INTENTS + 1, u64::from(number) << 32 | key_node);
    store(&runtime, slot + 4, 1);
    store(&runtime, slot + UNDO, id);
    store(&runtime, slot + UNDO + 1, u64::from(number) << 48 | (node + USED));
    store(&runtime, slot + UNDO + 2, 0xdead);
    store(&runtime, slot + 3, 1);
    (number, node)
}

#[test]
fn an_open_transaction_of_this_boot_is_undone() {
    // Proves that the log of the next two tests would be undone.
    let setup = killed();
    let (number, node) = leave_transaction_open(&setup);
    let server = setup.start();
    assert_eq!(load(&open(&group_file(&setup, "default", number)), node + USED), 0xdead);
    expect_counts(&server, 0, 7);
}

// Shows: damaged-files.
#[test]
fn a_swapped_file_is_scanned_and_not_undone() {
    let setup = killed();
    let (number, _) = leave_transaction_open(&setup);
    let path = group_file(&setup, "default", number);
    let copy = setup.path("copy");
    std::fs::copy(&path, &copy).expect("copied");
    std::fs::rename(&copy, &path).expect("swapped");
    let server = setup.start();
    expect_counts(&server, 7, 7);
    let log = setup.log();
    assert!(log.contains("group scanned") && log.contains("freed_semaphores=1"), "{log}");
}

// Shows: damaged-files.
#[test]
fn after_another_boot_semaphores_are_free_and_nothing_is_undone() {
    let setup = killed();
    leave_transaction_open(&setup);
    let runtime = open(&runtime_file(&setup));
    store(&runtime, RUNTIME_BOOT, 1);
    seal(&runtime, RUNTIME_CRC);
    for (name, number) in [("default", 0), ("default", 1), ("second", 0)] {
        let file = open(&group_file(&setup, name, number));
        store(&file, GROUP_BOOT, 1);
        assert_eq!(load(&file, GROUP_CLEAN), 0, "not closed");
        for key_node in 0..KEY_NODES {
            // Taken by a process of that boot, with a waiter.
            store(&file, PAGE + key_node * KEY_NODE, 0x8000_0103);
        }
    }
    let server = setup.start();
    expect_counts(&server, 7, 7);
    charge(&mut server.client(), "plenty", 1);
    let log = setup.log();
    assert!(log.contains("another boot"), "{log}");
    for freed in ["freed_semaphores=128", "freed_semaphores=64"] {
        assert!(log.contains(freed), "{freed} in {log}");
    }
    for (name, number) in [("default", 0), ("default", 1), ("second", 0)] {
        let file = open(&group_file(&setup, name, number));
        assert_ne!(load(&file, GROUP_BOOT), 1, "of this boot now");
        for key_node in 0..KEY_NODES {
            assert_eq!(load(&file, PAGE + key_node * KEY_NODE) as u32, 0, "a semaphore is taken");
        }
    }
}

#[test]
fn a_damaged_runtime_file_is_made_anew_and_counts_are_kept() {
    let setup = killed();
    let path = runtime_file(&setup);
    for damage in 0..3 {
        let file = open(&path);
        match damage {
            0 => file.set_len(4096).expect("cut"),
            1 => store(&file, 0, 7),
            _ => store(&file, RUNTIME_BOOT, 7),
        }
        let mut server = setup.start();
        expect_counts(&server, 7, 7);
        assert!(setup.log().contains("created runtime.mmap again"), "{}", setup.log());
        server.kill_all();
        std::fs::remove_file(setup.path("log")).expect("a log");
    }
}

#[test]
fn a_scribbled_node_is_never_believed() {
    let setup = setup();
    let mut server = setup.start();
    let mut client = server.client();
    for round in 0..NODE {
        // The last use may have any value: the CRC does not cover it.
        if round == 2 {
            continue;
        }
        charge(&mut client, "plenty", 7);
        let (_, file, node) = find_node(&setup);
        store(&file, node + round, load(&file, node + round) ^ 1 << 20);
        assert_eq!(used(&mut client, "plenty"), 0, "word {round}");
    }
    charge(&mut client, "plenty", 3);
    server.kill_all();
    drop(server);
    // The scan drops the node too.
    let (_, file, node) = find_node(&setup);
    store(&file, node + USED, 999);
    std::fs::remove_file(runtime_file(&setup)).expect("removed");
    let server = setup.start();
    expect_counts(&server, 0, 0);
    let log = setup.log();
    assert!(log.contains("node dropped") && log.contains("dropped=1"), "{log}");
}

/// Sends several items of each group, so that nodes are prefetched.
fn ask_many(client: &mut Client) -> Answer {
    let pair = "<item biz=\"other\" key=\"kept\"/><item biz=\"plenty\" key=\"many\"/>";
    let body = format!("<request>{}</request>", pair.repeat(20));
    let length = body.len();
    client.send(&format!(
        "POST /update HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    client.answer()
}

/// Cuts the only file of the second group under a running server, and makes a worker use it.
fn cut_live(server: &Server<'_>, length: u64) {
    open(&group_file(server.setup, "second", 0)).set_len(length).expect("cut");
    let mut first = server.client();
    match first.try_get("/update?biz=other&key=kept") {
        Err(_) => {}
        Ok(answer) => assert!(is_store(&answer), "{answer:?}"),
    }
}

// Shows: damaged-files.
#[test]
fn a_file_cut_while_serving_costs_its_group_only() {
    for length in [0, 4096] {
        let setup = setup();
        let server = setup.start();
        let workers = server.wait_for_workers(2);
        let mut beside: Vec<Client> = (0..16).map(|_| server.client()).collect();
        beside.iter_mut().for_each(|client| charge(client, "plenty", 1));
        cut_live(&server, length);
        let failed = beside.iter_mut().filter_map(|client| client.try_get("/health").err()).count();
        assert!(failed < beside.len(), "those of the other worker go on");
        wait_until("it is named", || {
            let log = setup.log();
            let named = log.contains("a process received SIGBUS") && log.contains("second.0.mmap");
            (named && log.contains(&format!("length: found {length}"))).then_some(())
        });
        // The worker that met the SIGBUS is replaced, and the new one serves the other group.
        let replaced = wait_until("it is replaced", || {
            let now = server.workers();
            // The keeper also looks at all nodes, and may have met it first.
            let met = now != workers || setup.log().contains("keeper died");
            (now.len() == 2 && met).then_some(now)
        });
        for _ in 0..16 {
            let mut client = server.client();
            let answer = client.get("/update?biz=other&key=kept");
            assert!(is_store(&answer), "{answer:?}");
            assert_eq!(client.get("/update?biz=plenty&key=kept").status, 200);
            let many = ask_many(&mut client);
            assert_eq!(many.body.matches("error=\"store\"").count(), 20, "{many:?}");
            assert_eq!(many.body.matches("limited=\"false\"").count(), 20, "{many:?}");
        }
        assert_eq!(used(&mut server.client(), "plenty"), 32, "nothing was lost");
        assert_eq!(server.workers(), replaced, "nobody else died");
        assert_eq!(setup.log().matches("a process received SIGBUS").count(), 1);
    }
}

#[test]
fn all_damaged_groups_are_named_after_a_sigbus() {
    let setup = setup();
    let server = setup.start();
    server.wait_for_workers(2);
    open(&group_file(&setup, "default", 1)).set_len(4096).expect("cut");
    cut_live(&server, 0);
    for name in ["default.1.mmap", "second.0.mmap"] {
        wait_until("the master names it", || {
            let log = setup.log();
            let named = |line: &str| line.contains("received SIGBUS") && line.contains(name);
            log.lines().any(named).then_some(())
        });
    }
    wait_until("the server goes on without them", || {
        let mut client = Client::try_connect(setup.address)?;
        let stores = ["plenty", "other"].map(|biz| {
            client.try_get(&format!("/update?biz={biz}&key=kept")).is_ok_and(|a| is_store(&a))
        });
        let health = client.try_get("/health").ok()?;
        // No group is left to serve.
        let told = health.status == 503 && health.body.contains("default, second");
        (stores == [true, true] && told).then_some(())
    });
}

#[test]
fn a_worker_that_is_replaced_finds_a_cut_file_before_it_faults() {
    let setup = setup();
    let server = setup.start();
    let workers = server.wait_for_workers(2);
    open(&group_file(&setup, "second", 0)).set_len(4096).expect("cut");
    for worker in &workers {
        nix::sys::signal::kill(*worker, nix::sys::signal::Signal::SIGKILL).expect("killed");
    }
    let replaced = wait_until("both are replaced", || {
        let now = server.workers();
        let all_new = workers.iter().all(|worker| !now.contains(worker));
        (now.len() == 2 && all_new).then_some(now)
    });
    let mut client = server.client();
    assert!(is_store(&client.get("/update?biz=other&key=kept")));
    ask_many(&mut client);
    charge(&mut client, "plenty", 1);
    assert!(setup.log().contains("second.0.mmap: length: found 4096"), "{}", setup.log());
    // The keeper's sweep may meet a SIGBUS in the meantime; the new workers must not.
    assert_eq!(server.workers(), replaced, "{}", setup.log());
}
