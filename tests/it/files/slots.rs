//! Slots of runtime.mmap with contents that no owner can have written: they are reported, and
//! nothing is replayed.

use std::fs::File;

use crate::common::files::{load, open, store};
use crate::common::{Client, Server, Setup};

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="4" chain="8" node-size="128"/>
  <group name="second" files="1" key-nodes="4" chain="8" node-size="128"/>
  <biz id="1" name="plenty" key="string"><limit policy="interval" interval="1h" max="1000"/></biz>
  <biz id="2" name="other" group="second" key="string"><limit policy="total" max="1000"/></biz>
</map>"#;
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

// Offsets in the files, in words: the map of src/store/file/layout.rs.
const PAGE: u64 = 512;
const KEY_NODE: u64 = 8 + 8 * 128 / 8;
const GROUP_ID: u64 = 2;
const SLOTS: u64 = PAGE + 4096 * 16;
const PHASE: u64 = 3;
const INTENTS: u64 = 4;
const INTENT_LIST: u64 = 2 * PAGE + 64 * 80;
const UNDO: u64 = INTENT_LIST + 4096 * 2;
const UNDO_MAX: u64 = 65536;
const SLOT: u64 = UNDO + UNDO_MAX * 3 + 4096 * 16 + 1024 * (1 + 40);

fn charge_all(server: &Server<'_>, times: u64) {
    let mut client = server.client();
    for _ in 0..times {
        for (key, biz) in KEYS.iter().flat_map(|key| [(key, "plenty"), (key, "other")]) {
            client.charge(biz, key, 1);
        }
    }
}

fn expect_all(server: &Server<'_>, used: u64) {
    let mut client: Client = server.client();
    for (key, biz) in KEYS.iter().flat_map(|key| [(key, "plenty"), (key, "other")]) {
        let answer = client.get(&format!("/query?biz={biz}&key={key}"));
        assert_eq!(answer.attribute("used"), Some(&*used.to_string()), "{biz} {key}: {answer:?}");
    }
}

// Shows: scribbled-logs.
#[test]
fn what_stands_in_free_slots_undoes_no_charge_later() {
    let setup = Setup::of_map(MAP);
    let mut server = setup.start();
    server.wait_for_workers(2);
    charge_all(&server, 3);
    assert_eq!(setup.frs(&["stop"]).status.code(), Some(0));
    server.wait();
    drop(server);
    let runtime = open(&setup.path("data/runtime.mmap"));
    for slot in (0..8).map(|slot| SLOTS + slot * SLOT) {
        assert_ne!(load(&runtime, slot) as u32, 1, "free");
        store(&runtime, slot + PHASE, 4);
        store(&runtime, slot + INTENTS, 1);
    }
    let mut server = setup.start();
    server.wait_for_workers(2);
    charge_all(&server, 3);
    server.kill_all();
    drop(server);
    let server = setup.start();
    expect_all(&server, 6);
    assert!(!setup.log().contains("slot damaged"), "{}", setup.log());
}

/// A setup whose server charged each key twice, and was killed.
fn killed() -> Setup {
    let setup = Setup::of_map(MAP);
    let mut server = setup.start();
    server.wait_for_workers(2);
    charge_all(&server, 2);
    server.kill_all();
    drop(server);
    setup
}

/// Makes the slot of a killed owner look as if it had died in a transaction over key-node 0 of the
/// first group. Its log would write 0xdead into `word` of `file`.
fn leave_entry(setup: &Setup, file: u64, word: u64) -> (File, u64) {
    let group = open(&setup.path("data/default.0.mmap"));
    let (id, runtime) = (load(&group, GROUP_ID), open(&setup.path("data/runtime.mmap")));
    let slot = (0..256)
        .map(|slot| SLOTS + slot * SLOT)
        .find(|&slot| load(&runtime, slot) as u32 == 1)
        .expect("the slot of one who was killed");
    // The owner still holds the key-node.
    let (owner, epoch) = ((slot - SLOTS) / SLOT, load(&runtime, slot) >> 32);
    store(&group, PAGE, owner | epoch << 8);
    store(&runtime, slot + INTENT_LIST, id);
    store(&runtime, slot + INTENT_LIST + 1, 0);
    store(&runtime, slot + INTENTS, 1);
    store(&runtime, slot + UNDO, id);
    store(&runtime, slot + UNDO + 1, file << 48 | word);
    store(&runtime, slot + UNDO + 2, 0xdead);
    store(&runtime, slot + PHASE, 1);
    (runtime, slot)
}

// Shows: scribbled-logs.
#[test]
fn a_log_that_its_owner_cannot_have_written_is_named_and_not_replayed() {
    let first = PAGE;
    let second = PAGE + KEY_NODE;
    let behind = PAGE + 4 * KEY_NODE;
    type Scribble = fn(&File, u64);
    let none: Scribble = |_, _| {};
    for ((file, word), scribble, said) in [
        ((0, GROUP_ID), none, "undo entry 0: found word 2 of file 0"),
        ((0, first), none, "undo entry 0: found word 512 of file 0"),
        ((0, second + 9), none, "undo entry 0: found word 657 of file 0"),
        ((0, behind), none, "undo entry 0: found word "),
        ((1, first + 9), none, "undo entry 0: found word 521 of file 1"),
        (
            (0, first + 9),
            |runtime, slot| store(runtime, slot + PHASE, UNDO_MAX + 1),
            "phase: found 65537, expected at most 65536",
        ),
        (
            (0, first + 9),
            |runtime, slot| store(runtime, slot + INTENTS, 1 << 40),
            "number of intents: found 1099511627776, expected at most 4096",
        ),
        (
            (0, first + 9),
            |runtime, slot| store(runtime, slot + UNDO, 7),
            "of group 0000000000000007",
        ),
        (
            (0, first + 9),
            |runtime, slot| {
                store(runtime, slot + INTENT_LIST + 2, load(runtime, slot + INTENT_LIST));
                store(runtime, slot + INTENT_LIST + 3, 0);
                store(runtime, slot + INTENTS, 2);
            },
            "intent 1: found a key-node that is not behind the one before it",
        ),
        // The entry is right; the intent list is wrong.
        (
            (0, first + 9),
            |runtime, slot| store(runtime, slot + INTENT_LIST, 7),
            "undo entry 0: found word 521 of file 0",
        ),
        (
            (0, first + 9),
            |runtime, slot| store(runtime, slot + INTENTS, 0),
            "undo entry 0: found word 521 of file 0",
        ),
    ] {
        let setup = killed();
        let (runtime, slot) = leave_entry(&setup, file, word);
        scribble(&runtime, slot);
        let server = setup.start();
        let log = setup.log();
        assert!(log.contains("slot damaged") && log.contains(said), "{said:?} in {log}");
        assert!(log.contains("group=\"default\"") && log.contains("group scanned"), "{log}");
        expect_all(&server, 2);
    }
}

// Shows: scribbled-logs.
#[test]
fn where_no_transaction_was_open_damage_is_named_and_no_group_suffers() {
    type Scribble = fn(&File, u64);
    let scribbles: [Scribble; 2] = [
        |runtime, slot| store(runtime, slot + INTENTS, 0),
        |runtime, slot| {
            store(runtime, slot + PHASE, 0);
            store(runtime, slot + INTENTS, 1 << 40);
        },
    ];
    for scribble in scribbles {
        let setup = killed();
        let (runtime, slot) = leave_entry(&setup, 0, PAGE + 9);
        // The owner holds no key-node.
        store(&open(&setup.path("data/default.0.mmap")), PAGE, 0);
        scribble(&runtime, slot);
        let server = setup.start();
        let log = setup.log();
        assert!(log.contains("slot damaged"), "{log}");
        assert!(!log.contains("group scanned"), "no transaction was open: {log}");
        expect_all(&server, 2);
    }
}
