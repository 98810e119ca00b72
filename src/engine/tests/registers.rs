//! Registers over a real store: one and several in a transaction, their expiry, room and eviction,
//! databases, walks, other texts and other geometries.

use std::collections::{BTreeMap, BTreeSet};

use frs_store::counter::BizKey;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::testing::registers::{Owned, owned};
use crate::testing::{World, move_all};
use crate::{
    Command, ItemError, MAX_REGISTERS, MovePass, Outcome, RecordName, RegisterError, RegisterScan,
    RegisterValue, Registers, Service,
};

const NOW: u64 = 1_700_000_000_000;

/// A map with registers in a group of this geometry, and a limit beside them.
fn map(geometry: &str, text_bytes: u16) -> String {
    format!(
        "<map><group name='g' {geometry}/>
        <biz id='1' name='redis' key='string'><register text-bytes='{text_bytes}'/></biz>
        <biz id='2' name='login' key='string'><limit policy='interval' interval='1h' max='9'/></biz>
        </map>"
    )
}

const ROOMY: &str = "files='1' key-nodes='16' chain='28' node-size='192'";

fn world() -> World {
    World::new(&map(ROOMY, 40))
}

/// How many records there are.
fn nodes(world: &World) -> u64 {
    world.group("g").verify().nodes
}

#[test]
fn a_register_is_set_read_and_removed() {
    let world = world();
    let mut service = world.attach();
    assert_eq!(service.get_register("redis", "k", NOW), None);
    assert_eq!(nodes(&world), 0, "what is absent and not set makes no record");
    for value in ["7", "-7", "", "text", "0123456789012345678901234567890123456789"] {
        service.set_register("redis", "k", value, 0, NOW).unwrap();
        assert_eq!(service.get_register("redis", "k", NOW), Some((value.to_owned(), 0)));
    }
    assert_eq!(nodes(&world), 1);
    service.remove_register("redis", "k", NOW);
    assert_eq!(service.get_register("redis", "k", NOW), None);
    assert_eq!(nodes(&world), 0);
    service.remove_register("redis", "k", NOW);
    world.verify();
}

#[test]
fn a_text_that_is_too_long_changes_nothing() {
    let world = world();
    let mut service = world.attach();
    service.set_register("redis", "k", "7", 0, NOW).unwrap();
    let long = "x".repeat(41);
    let refused = service.set_register("redis", "k", &long, 0, NOW);
    assert_eq!(refused, Err(RegisterError::TextTooLong { most: 40 }));
    assert_eq!(service.get_register("redis", "k", NOW), Some(("7".to_owned(), 0)));
}

#[test]
fn a_register_is_gone_at_the_millisecond_of_its_expiry() {
    let world = world();
    let mut service = world.attach();
    service.set_register("redis", "k", "7", NOW + 10, NOW).unwrap();
    assert_eq!(service.get_register("redis", "k", NOW + 9), Some(("7".to_owned(), NOW + 10)));
    assert_eq!(service.get_register("redis", "k", NOW + 10), None);
    assert_eq!(nodes(&world), 1, "reading writes nothing");
    assert_eq!(service.add_to_registers("redis", &["k"], 1, NOW + 10), Ok(vec![1]));
    assert_eq!(service.get_register("redis", "k", NOW + 11), Some(("1".to_owned(), 0)));
    // An expiry that is over removes, in any way that it comes.
    let biz = service.biz_of_registers("redis");
    for (key, is_set) in [("k", false), ("k", true), ("l", true)] {
        service.set_register("redis", key, "7", 0, NOW).unwrap();
        let done = service.on_registers(biz, 0, &[key.as_bytes()], NOW, |it| {
            if is_set {
                it.set(0, RegisterValue::Number(8), NOW).unwrap();
            } else {
                it.set_expiry(0, NOW);
            }
            it.get(0).map(owned)
        });
        assert_eq!(done, Ok(None));
        assert_eq!(nodes(&world), 0, "{key} {is_set}");
    }
    // A clock that is set back sees the register again, as Redis does.
    service.set_register("redis", "k", "7", NOW + 10, NOW).unwrap();
    assert_eq!(service.get_register("redis", "k", NOW + 10), None);
    assert!(service.get_register("redis", "k", NOW - 1_000_000).is_some());
}

#[test]
fn what_is_removed_after_its_expiry_stays_away_if_the_clock_steps_back() {
    let world = world();
    let mut service = world.attach();
    let biz = service.biz_of_registers("redis");
    for keys in [&[&b"k"[..]][..], &[b"k", b"l"]] {
        for is_set in [false, true] {
            service.set_register("redis", "k", "7", NOW + 10, NOW).unwrap();
            let work = |it: &mut dyn Registers| match is_set {
                true => it.set(0, RegisterValue::Number(1), NOW).unwrap(),
                false => it.remove(0),
            };
            service.on_registers(biz, 0, keys, NOW + 10, work).unwrap();
            assert_eq!(service.get_register("redis", "k", NOW), None);
            assert_eq!(nodes(&world), 0);
        }
    }
}

#[test]
fn an_expiry_is_set_where_there_is_a_register() {
    let world = world();
    let mut service = world.attach();
    let biz = service.biz_of_registers("redis");
    service.set_register("redis", "k", "7", 0, NOW).unwrap();
    for (key, expires_ms, expected) in
        [("k", NOW + 5, Some(("7".to_owned(), NOW + 5))), ("none", NOW + 5, None)]
    {
        let keys = &[key.as_bytes()];
        service.on_registers(biz, 0, keys, NOW, |it| it.set_expiry(0, expires_ms)).unwrap();
        assert_eq!(service.get_register("redis", key, NOW), expected);
    }
    assert_eq!(nodes(&world), 1);
    service.on_registers(biz, 0, &[b"k"], NOW, |it| it.set_expiry(0, 0)).unwrap();
    assert_eq!(service.get_register("redis", "k", NOW), Some(("7".to_owned(), 0)));
}

// Shows: registers.
#[test]
fn several_registers_change_together() {
    let world = world();
    let mut service = world.attach();
    let keys: Vec<String> = (0..MAX_REGISTERS).map(|key| format!("key {key}")).collect();
    let named: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(service.add_to_registers("redis", &named, 3, NOW), Ok(vec![3; MAX_REGISTERS]));
    assert_eq!(service.add_to_registers("redis", &named[..3], 2, NOW), Ok(vec![5; 3]));
    let biz = service.biz_of_registers("redis");
    let keys: Vec<&[u8]> = named[..3].iter().map(|key| key.as_bytes()).collect();
    service
        .on_registers(biz, 0, &keys, NOW, |it| {
            it.remove(0);
            it.set(1, RegisterValue::Text(b"text"), NOW + 9).unwrap();
            it.touch(2);
        })
        .unwrap();
    assert_eq!(service.get_register("redis", "key 0", NOW), None);
    assert_eq!(service.get_register("redis", "key 1", NOW), Some(("text".to_owned(), NOW + 9)));
    assert_eq!(service.get_register("redis", "key 2", NOW), Some(("5".to_owned(), 0)));
    assert_eq!(nodes(&world), MAX_REGISTERS as u64 - 1);
    world.verify();
}

#[test]
fn equal_keys_are_one_register() {
    let world = world();
    let mut service = world.attach();
    assert_eq!(service.add_to_registers("redis", &["a", "b", "a", "a"], 1, NOW), {
        Ok(vec![1, 1, 2, 3])
    });
    assert_eq!(service.get_register("redis", "a", NOW), Some(("3".to_owned(), 0)));
    let biz = service.biz_of_registers("redis");
    let found = service.on_registers(biz, 0, &[b"a", b"a"], NOW, |it| {
        it.remove(0);
        assert_eq!(it.get(1), None);
        it.set(1, RegisterValue::Number(9), 0).unwrap();
        it.get(0).map(owned)
    });
    assert_eq!(found, Ok(Some(("9".to_owned(), 0))));
    assert_eq!(nodes(&world), 2);
    world.verify();
}

#[test]
fn what_is_made_and_removed_in_one_transaction_was_never_there() {
    let world = world();
    let mut service = world.attach();
    let biz = service.biz_of_registers("redis");
    for keys in [&[&b"a"[..]][..], &[b"a", b"b"]] {
        let work = |it: &mut dyn crate::Registers| {
            it.set(0, RegisterValue::Number(1), 0).unwrap();
            it.remove(0);
        };
        service.on_registers(biz, 0, keys, NOW, work).unwrap();
        assert_eq!(nodes(&world), 0);
    }
    world.verify();
}

#[test]
fn what_is_removed_makes_room_for_what_is_set_after_it() {
    for on_full in ["evict", "refuse"] {
        let geometry = "files='1' key-nodes='1' chain='3' node-size='192'";
        let world = World::new(&map(&format!("{geometry} on-full='{on_full}'"), 40));
        let mut service = world.attach();
        for (key, later) in [("a", 0), ("b", 1), ("c", 2)] {
            service.set_register("redis", key, "1", 0, NOW + later).unwrap();
        }
        let biz = service.biz_of_registers("redis");
        let done = service.on_registers(biz, 0, &[b"b", b"d"], NOW + 3, |it| {
            it.remove(0);
            it.set(1, RegisterValue::Number(4), 0)
        });
        assert_eq!(done, Ok(Ok(())), "{on_full}");
        let all = service.all_registers("redis", 0, 10, NOW + 3);
        assert_eq!(all, ["a", "c", "d"].map(String::from).into(), "{on_full}");
        // What takes the place and is removed, too, leaves it to the first one.
        let done = service.on_registers(biz, 0, &[b"a", b"e"], NOW + 4, |it| {
            it.remove(0);
            it.set(1, RegisterValue::Number(5), 0)?;
            it.remove(1);
            it.set(0, RegisterValue::Number(6), 0)
        });
        assert_eq!(done, Ok(Ok(())), "{on_full}");
        assert_eq!(service.get_register("redis", "a", NOW + 4), Some(("6".to_owned(), 0)));
        assert_eq!(nodes(&world), 3);
        world.verify();
    }
}

#[test]
fn a_transaction_that_changes_nothing_counts_as_a_query() {
    let world = world();
    let mut service = world.attach();
    service.add_to_registers("redis", &["a", "b"], 1, NOW).unwrap();
    let biz = service.biz_of_registers("redis");
    let counted = || {
        let sums = world.runtime().sums();
        sums.bizs[&BizKey::Id(1)].items.map(|outcomes| outcomes[Outcome::Allowed as usize])
    };
    let before = counted();
    service.on_registers(biz, 0, &[b"a", b"a"], NOW, |it| it.touch(0)).unwrap();
    assert_eq!(counted(), [before[0] + 1, before[1]]);
}

#[test]
fn bad_keys_and_other_businesses_are_errors() {
    let world = world();
    let mut service = world.attach();
    let (biz, login) = (service.biz_of_registers("redis"), service.biz_of_registers("login"));
    let mut run = |biz: usize, keys: &[&[u8]]| service.on_registers(biz, 0, keys, NOW, |_| ());
    assert_eq!(run(login, &[b"a"]), Err(ItemError::UnknownBiz));
    assert_eq!(run(9, &[b"a"]), Err(ItemError::UnknownBiz));
    assert_eq!(run(biz, &[b"a", b"\xff"]), Err(ItemError::BadKey));
    assert_eq!(run(biz, &[&[b'a'; 1025]]), Err(ItemError::BadKey));
    // What is asked before a transaction is what the transaction says.
    for (database, key) in [
        (0, &b"a"[..]),
        (0, b""),
        (0, b"a\xff"),
        (0, b"a\0"),
        (0, b"\x01"),
        (0, "\u{ffff}".as_bytes()),
        (0, &[b'a'; 1024]),
        (0, &[b'a'; 1025]),
        (3, &[b'a'; 1020]),
        (3, &[b'a'; 1021]),
    ] {
        let is_key = service.is_register_key(biz, database, key);
        let found = service.on_registers(biz, database, &[key], NOW, |_| ());
        assert_eq!(found.is_ok(), is_key, "{database} {key:?}");
    }
    let mut run = |biz, keys: &[&[u8]]| service.on_registers(biz, 0, keys, NOW, |_| ());
    assert_eq!(run(biz, &[&b"a"[..]; MAX_REGISTERS + 1]), Err(ItemError::BadKey));
    assert_eq!(run(biz, &[b""]), Ok(()), "an empty key is a key in Redis");
    assert_eq!(run(biz, &[]), Ok(()));
    // And an ordinary item finds no limit.
    for command in [Command::Query, Command::Update] {
        assert_eq!(service.one(command, "redis", "a", 1, NOW), Err(ItemError::UnknownBiz));
        assert_eq!(service.one(command, "1", "a", 1, NOW), Err(ItemError::UnknownBiz));
    }
    world.quarantine("g");
    assert_eq!(service.on_registers(biz, 0, &[b"a"], NOW, |_| ()), Err(ItemError::Store));
    assert_eq!(service.registers_len(biz, 0, NOW), Err(ItemError::Store));
    let scan = RegisterScan { database: 0, cursor: 0, count: 10 };
    assert_eq!(service.scan_registers(biz, scan, NOW, |_| ()), Err(ItemError::Store));
}

#[test]
fn databases_and_long_keys_are_keys_of_their_own() {
    let world = world();
    let mut service = world.attach();
    let biz = service.biz_of_registers("redis");
    let long = "k".repeat(100);
    for (database, key) in [(0, "a"), (3, "a"), (0, "db3:a"), (0, ""), (0, &long), (3, &long)] {
        let value = format!("{database} {}", key.len());
        let set = service.on_registers(biz, database, &[key.as_bytes()], NOW, |it| {
            assert_eq!(it.get(0), None, "{database} {key}");
            it.set(0, RegisterValue::Text(value.as_bytes()), 0)
        });
        assert_eq!(set, Ok(Ok(())));
    }
    assert_eq!(nodes(&world), 6);
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    assert_eq!(service.all_registers("redis", 0, 10, NOW), texts(&["", "a", "db3:a"]));
    assert_eq!(service.all_registers("redis", 3, 10, NOW), texts(&["a"]));
    assert_eq!(service.all_registers("redis", 4, 10, NOW), BTreeSet::new());
    let mut len = |database| service.registers_len(biz, database, NOW).unwrap();
    assert_eq!([len(0), len(3), len(4)], [5, 1, 0], "digests count for database 0");
}

#[test]
fn a_walk_sees_each_register_that_is_there() {
    let world = world();
    let mut service = world.attach();
    let mut expected = BTreeSet::new();
    for key in 0..200_u64 {
        let expires_ms = if key % 5 == 0 { NOW + 1 } else { 0 };
        service.set_register("redis", &format!("k{key}"), "1", expires_ms, NOW).unwrap();
        if expires_ms == 0 {
            expected.insert(format!("k{key}"));
        }
    }
    service.update("login", "k1", NOW);
    for count in [0, 1, 7, 1000] {
        assert_eq!(service.all_registers("redis", 0, count, NOW + 1), expected);
    }
    let biz = service.biz_of_registers("redis");
    assert_eq!(service.registers_len(biz, 0, NOW), Ok(200));
    assert_eq!(service.registers_len(biz, 0, NOW + 1), Ok(160));
    // Registers come in pieces, and a cursor from elsewhere begins anew.
    let first = RegisterScan { database: 0, cursor: 0, count: 10 };
    let mut seen = 0;
    let next = service.scan_registers(biz, first, NOW, |_| seen += 1).unwrap();
    assert!((10..38).contains(&seen) && next != 0, "{seen}");
    let unknown = RegisterScan { cursor: u64::MAX, ..first };
    let mut again = 0;
    service.scan_registers(biz, unknown, NOW, |_| again += 1).unwrap();
    assert_eq!(again, seen);
    let login = service.biz_of_registers("login");
    let found = service.scan_registers(login, first, NOW, |_| panic!("no register"));
    assert_eq!(found, Err(ItemError::UnknownBiz));
}

#[test]
fn a_large_group_is_looked_at_in_parts() {
    let world = World::new(&map("files='1' key-nodes='4001' chain='28' node-size='192'", 40));
    let mut service = world.attach();
    let biz = service.biz_of_registers("redis");
    let add = |service: &mut Service, from: u64, to: u64| {
        let keys: Vec<String> = (from..to).map(|key| format!("k{key}")).collect();
        for keys in keys.chunks(16) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            service.add_to_registers("redis", &keys, 1, NOW).unwrap();
        }
    };
    add(&mut service, 0, 500);
    assert_eq!(service.registers_len(biz, 0, NOW), Ok(500), "a look sees all");
    add(&mut service, 500, 40_000);
    let about = service.registers_len(biz, 0, NOW).unwrap();
    let all = nodes(&world);
    assert!(about.abs_diff(all) <= all / 7, "{about} of {all}");
    // Within a second it is not looked at again, but for another database.
    add(&mut service, 40_000, 80_000);
    assert_eq!(service.registers_len(biz, 0, NOW), Ok(about));
    let about = service.registers_len(biz, 0, NOW + 1000).unwrap();
    let all = nodes(&world);
    assert!(about.abs_diff(all) <= all / 7, "{about} of {all}");
    assert_eq!(service.registers_len(biz, 1, NOW + 1000), Ok(0));
    // A walk for the keys of an empty database looks at as much in a call as one for others.
    let mut calls = [0, 0];
    for (database, calls) in [0, 1].into_iter().zip(&mut calls) {
        let mut scan = RegisterScan { database, cursor: 0, count: usize::MAX };
        let mut seen = 0;
        while *calls == 0 || scan.cursor != 0 {
            let before = seen;
            scan.cursor = service.scan_registers(biz, scan, NOW, |_| seen += 1).unwrap();
            assert!(seen - before < 1300, "{} in a call", seen - before);
            *calls += 1;
        }
        assert_eq!(seen, if database == 0 { all } else { 0 });
    }
    assert_eq!(calls[0], calls[1]);
}

#[test]
fn a_full_group_evicts_what_was_not_used_for_longest() {
    let world = World::new(&map("files='1' key-nodes='1' chain='4' node-size='192'", 40));
    let mut service = world.attach();
    let mut later = NOW;
    let mut next = || {
        later += 10;
        later
    };
    for (key, expires_ms) in [("a", 0), ("b", NOW + 30_000), ("c", 0), ("d", 0)] {
        service.set_register("redis", key, "1", expires_ms, next()).unwrap();
    }
    let biz = service.biz_of_registers("redis");
    service.on_registers(biz, 0, &[b"a"], next(), |it| it.touch(0)).unwrap();
    assert!(service.get_register("redis", "b", next()).is_some(), "a look alone is no use");
    service.set_register("redis", "e", "1", 0, next()).unwrap();
    assert_eq!(service.get_register("redis", "b", next()), None);
    service.on_registers(biz, 0, &[b"c", b"d"], next(), |it| it.touch(0)).unwrap();
    service.set_register("redis", "f", "1", NOW + 500, next()).unwrap();
    assert_eq!(service.get_register("redis", "d", next()), None);
    // An expired one goes first, however lately it was used.
    service.set_register("redis", "g", "1", 0, NOW + 1000).unwrap();
    let there = ["a", "c", "e", "f", "g"]
        .map(|key| service.get_register("redis", key, NOW + 2000).is_some());
    assert_eq!(there, [true, true, true, false, true]);
    world.verify();
}

#[test]
fn a_group_that_refuses_has_no_room() {
    let geometry = "files='1' key-nodes='1' chain='2' node-size='192' on-full='refuse'";
    let world = World::new(&map(geometry, 40));
    let mut service = world.attach();
    service.set_register("redis", "a", "1", 0, NOW).unwrap();
    service.set_register("redis", "b", "1", NOW + 10, NOW).unwrap();
    assert_eq!(service.set_register("redis", "c", "1", 0, NOW), Err(RegisterError::Full));
    // What found room is stored, and the rest of a transaction goes on.
    assert_eq!(service.add_to_registers("redis", &["a", "c", "b"], 1, NOW), Ok(vec![2, 2]));
    assert_eq!(service.get_register("redis", "c", NOW), None);
    service.set_register("redis", "c", "1", 0, NOW + 10).unwrap();
    assert_eq!(service.get_register("redis", "b", NOW), None, "the expired one made room");
    world.verify();
}

#[test]
fn an_expired_register_makes_room_wherever_it_stands() {
    for on_full in ["evict", "refuse"] {
        let geometry = "files='1' key-nodes='1' chain='28' node-size='192'";
        let world = World::new(&map(&format!("{geometry} on-full='{on_full}'"), 40));
        let mut service = world.attach();
        let mut set = |key: &str, expires_ms: u64, now: u64| {
            service.set_register("redis", key, "1", expires_ms, now).unwrap();
        };
        // More of them than are judged, and all of them older.
        (0..20).for_each(|key| set(&format!("live{key}"), 0, NOW + key));
        (0..8).for_each(|key| set(&format!("over{key}"), NOW + 200, NOW + 100 + key));
        (0..8).for_each(|key| set(&format!("new{key}"), 0, NOW + 200));
        let all = service.all_registers("redis", 0, 100, NOW + 200);
        assert_eq!(all.len(), 28, "{on_full}: {all:?}");
        assert!(!all.iter().any(|key| key.starts_with("over")), "{on_full}: {all:?}");
        world.verify();
    }
}

// Shows: registers.
#[test]
fn another_length_of_texts_keeps_those_that_fit() {
    let world = World::new(&map("files='1' key-nodes='4' chain='8' node-size='192'", 40));
    let mut service = world.attach();
    service.set_register("redis", "number", "7", NOW + 99, NOW).unwrap();
    service.set_register("redis", "short", "12345678x", 0, NOW).unwrap();
    service.set_register("redis", "long", &"x".repeat(40), 0, NOW).unwrap();
    let geometry = "files='1' key-nodes='4' chain='8' node-size='192'";
    world.publish(&map(geometry, 10), 2);
    service.begin_tick();
    let get = |service: &mut Service, key: &str| service.get_register("redis", key, NOW);
    assert_eq!(get(&mut service, "number"), Some(("7".to_owned(), NOW + 99)));
    assert_eq!(get(&mut service, "short"), Some(("12345678x".to_owned(), 0)));
    assert_eq!(get(&mut service, "long"), None, "a text is never cut");
    assert_eq!(service.all_registers("redis", 0, 10, NOW).len(), 2);
    service.set_register("redis", "long", "new", 0, NOW).unwrap();
    world.publish(&map(geometry, 48), 3);
    service.begin_tick();
    assert_eq!(get(&mut service, "long"), Some(("new".to_owned(), 0)));
    let whole = "y".repeat(48);
    service.set_register("redis", "long", &whole, 0, NOW).unwrap();
    assert_eq!(get(&mut service, "long"), Some((whole, 0)));
    assert_eq!(get(&mut service, "number"), Some(("7".to_owned(), NOW + 99)));
    // Limits in their place begin anew, and so do registers in the place of limits.
    let limits = map(geometry, 48)
        .replace("<register text-bytes='48'/>", "<limit policy='interval' interval='1h' max='9'/>");
    world.publish(&limits, 4);
    service.begin_tick();
    assert_eq!(service.used("redis", "number", NOW), 0);
    assert_eq!(service.update("redis", "number", NOW).figures.used, 1);
    world.publish(&map(geometry, 48), 5);
    service.begin_tick();
    assert_eq!(get(&mut service, "number"), None);
    world.verify();
}

#[test]
fn a_record_is_erased_by_hand() {
    let world = world();
    let mut service = world.attach();
    service.set_register("redis", "k", "7", 0, NOW).unwrap();
    assert!(service.erase(RecordName::of_key("redis", "k"), NOW).unwrap().is_some());
    assert_eq!(service.get_register("redis", "k", NOW), None);
    assert_eq!(service.erase(RecordName::of_key("redis", "k"), NOW), Ok(None));
}

// Shows: growth.
#[test]
fn a_key_becomes_a_digest_where_key_fields_are_shorter() {
    let mut world = World::new(&map(ROOMY, 40));
    let mut service = world.attach();
    let keys = ["a key of more than 24 bytes, that stays as it is", "another key of as many bytes"];
    service.add_to_registers("redis", &keys, 5, NOW).unwrap();
    let shorter = "files='1' key-nodes='3' chain='28' node-size='128' key-bytes='24'";
    world.begin_moves(&map(shorter, 40), 2);
    service.begin_tick();
    assert_eq!(service.all_registers("redis", 0, 10, NOW).len(), 2);
    assert_eq!(service.add_to_registers("redis", &keys[..1], 1, NOW), Ok(vec![6]));
    assert_eq!(service.all_registers("redis", 0, 10, NOW).len(), 1);
    assert_eq!(service.registers_len(0, 0, NOW), Ok(2));
    move_all(&mut service, NOW);
    assert_eq!(service.add_to_registers("redis", &keys, 1, NOW), Ok(vec![7, 6]));
    assert_eq!(service.all_registers("redis", 0, 10, NOW), BTreeSet::new());
    world.verify();
}

/// A step of a program.
#[derive(Debug, Clone)]
enum Step {
    Get(usize),
    Set(usize, String, Option<u64>),
    Expire(usize, u64),
    Remove(usize),
    /// One transaction over several keys.
    AddAll(Vec<usize>),
    /// Milliseconds pass.
    Wait(u64),
    /// Nodes move, if the group moves.
    Move,
    /// The group moves to another geometry, once a move before has ended.
    Grow(usize),
}

const KEYS: [&str; 6] = [
    "a",
    "b",
    "",
    "a key of 24 bytes, a text",
    "a digest in each geometry, because it has more bytes than the largest of the key fields",
    "db1:key",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..KEYS.len();
    let value = prop_oneof![
        any::<i8>().prop_map(|number| number.to_string()),
        "[a-z ]{0,40}".prop_map(String::from),
    ];
    let step = prop_oneof![
        4 => key().prop_map(Step::Get),
        6 => (key(), value, proptest::option::of(0..50_u64))
            .prop_map(|(key, value, life)| Step::Set(key, value, life)),
        2 => (key(), 0..50_u64).prop_map(|(key, life)| Step::Expire(key, life)),
        2 => key().prop_map(Step::Remove),
        4 => vec(key(), 1..6).prop_map(Step::AddAll),
        2 => (1..40_u64).prop_map(Step::Wait),
        3 => Just(Step::Move),
        1 => (1..3_usize).prop_map(Step::Grow),
    ];
    vec(step, 1..60)
}

/// What is there, by a plain map.
#[derive(Debug, Default)]
struct Model(BTreeMap<usize, Owned>);

impl Model {
    fn get(&mut self, key: usize, now: u64) -> Option<Owned> {
        self.0.retain(|_, (_, expires_ms)| *expires_ms == 0 || *expires_ms > now);
        self.0.get(&key).cloned()
    }
}

/// Both take the newest configuration.
fn tick(services: &mut [Service]) {
    for service in services {
        service.begin_tick();
        assert!(!service.is_behind());
    }
}

fn run(steps: &[Step]) {
    const GEOMETRIES: [&str; 3] = [
        "files='1' key-nodes='2' chain='28' node-size='128' key-bytes='32'",
        "files='2' key-nodes='3' chain='28' node-size='192'",
        "files='1' key-nodes='1' chain='28' node-size='192' key-bytes='40'",
    ];
    let mut world = World::new(&map(GEOMETRIES[0], 40));
    let mut services = [world.attach(), world.attach()];
    let (mut now, mut model, mut generation) = (NOW, Model::default(), 1);
    let (mut pass, mut geometry, mut moves) = (MovePass::default(), 0, false);
    for (nth, step) in steps.iter().enumerate() {
        let service = &mut services[nth % 2];
        match step {
            Step::Get(key) => {
                assert_eq!(service.get_register("redis", KEYS[*key], now), model.get(*key, now));
            }
            Step::Set(key, value, life) => {
                let expires_ms = life.map_or(0, |life| now + life);
                service.set_register("redis", KEYS[*key], value, expires_ms, now).unwrap();
                model.0.insert(*key, (value.clone(), expires_ms));
            }
            Step::Expire(key, life) => {
                let (biz, keys) = (service.biz_of_registers("redis"), &[KEYS[*key].as_bytes()]);
                service.on_registers(biz, 0, keys, now, |it| it.set_expiry(0, now + life)).unwrap();
                if model.get(*key, now).is_some() {
                    model.0.get_mut(key).expect("there").1 = now + life;
                }
            }
            Step::Remove(key) => {
                service.remove_register("redis", KEYS[*key], now);
                model.0.remove(key);
            }
            Step::AddAll(keys) => {
                let named: Vec<&str> = keys.iter().map(|&key| KEYS[key]).collect();
                let found = service.add_to_registers("redis", &named, 2, now).unwrap();
                let expected: Vec<i64> = keys
                    .iter()
                    .map(|&key| {
                        let (value, expires_ms) = model.get(key, now).unwrap_or_default();
                        let number = value.parse::<i64>().ok().filter(|it| it.to_string() == value);
                        let expires_ms = if number.is_some() { expires_ms } else { 0 };
                        let sum = number.unwrap_or(0) + 2;
                        model.0.insert(key, (sum.to_string(), expires_ms));
                        sum
                    })
                    .collect();
                assert_eq!(found, expected);
            }
            Step::Wait(ms) => now += ms,
            Step::Move if moves => {
                service.begin_tick();
                service.move_nodes("g", &mut pass, 1, now).unwrap();
            }
            Step::Move => {}
            Step::Grow(other) => {
                if moves {
                    tick(&mut services);
                    move_all(&mut services[0], now);
                    generation += 1;
                    world.end_moves(
                        &map(GEOMETRIES[geometry], generation as u16 % 2 + 40),
                        generation,
                    );
                    tick(&mut services);
                }
                (geometry, moves, pass) = ((geometry + other) % 3, true, MovePass::default());
                generation += 1;
                world.begin_moves(
                    &map(GEOMETRIES[geometry], generation as u16 % 2 + 40),
                    generation,
                );
                tick(&mut services);
            }
        }
        let there: BTreeSet<String> = (0..KEYS.len())
            .filter(|&key| model.get(key, now).is_some())
            .map(|key| KEYS[key].to_owned())
            .collect();
        let biz = services[0].biz_of_registers("redis");
        for service in &mut services {
            assert_eq!(service.registers_len(biz, 0, now), Ok(there.len() as u64), "{step:?}");
            let walked = service.all_registers("redis", 0, 1, now);
            assert!(walked.is_subset(&there), "{walked:?} {there:?}");
        }
    }
    for (nth, key) in KEYS.iter().enumerate() {
        assert_eq!(services[0].get_register("redis", key, now), model.get(nth, now), "{key}");
    }
    world.verify();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    /// The group moves now and then, and texts may be longer or shorter.
    // Shows: registers.
    #[test]
    fn registers_are_those_of_a_plain_map(steps in steps()) {
        run(&steps);
    }
}
