//! Registers as tools read them, and what a changed map does to them.

use frs_limit::WordUnit;

use super::{T, at, reader};
use crate::Command;
use crate::inspect::{KeptRegister, fresh_records};
use crate::testing::World;

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="8" chain="8" node-size="192"/>
  <biz id="1" name="redis" key="string"><register text-bytes="40"/></biz>
  <biz id="2" name="plain" key="string"><limit policy="total" max="3"/></biz>
</map>"#;

fn kept(value: &str, expires_ms: Option<u64>) -> Option<KeptRegister> {
    let number = value.parse().ok().filter(|number: &i64| number.to_string() == value);
    Some(KeptRegister { value: value.to_owned(), number, expires_ms })
}

#[test]
fn a_record_tells_value_and_expiry() {
    let world = World::new(MAP);
    let mut service = world.attach();
    service.set_register("redis", "number", "-7", T + 5000, T).unwrap();
    service.set_register("redis", "text", "a\u{1}\tb", 0, T).unwrap();
    service.set_register("redis", "hits", "12", 0, T).unwrap();
    service.set_register("redis", "padded", "012", 0, T).unwrap();
    service.one(Command::Update, "plain", "k", 1, T).unwrap();
    let mut reader = reader(&world);
    let mut record = |biz, key, now| at(reader.node(biz, key, now).unwrap());
    let number = record("redis", "number", T);
    assert_eq!((number.register.clone(), number.used()), (kept("-7", Some(T + 5000)), 0));
    assert_eq!((number.limits.len(), number.held(), number.once_ids), (0, None, None));
    assert_eq!(record("redis", "number", T + 5000).register, number.register, "it expired");
    assert_eq!(record("redis", "text", T).register, kept("a\u{fffd}\tb", None));
    assert_eq!(record("redis", "hits", T).used(), 12);
    assert_eq!(record("redis", "padded", T).used(), 0, "a text");
    assert_eq!(record("plain", "k", T).register, None);
}

#[test]
fn every_word_of_a_register_has_a_name() {
    let world = World::new(MAP);
    world.attach().set_register("redis", "k", "text", T + 9, T).unwrap();
    let reader = &mut reader(&world);
    let record = at(reader.node("redis", "k", T).unwrap());
    let words = reader.state_words(&record);
    let units: Vec<_> = words.iter().map(|word| (word.name, word.unit)).collect();
    assert_eq!(units[..2], [("expires", WordUnit::Expiry), ("register", WordUnit::Register)]);
    assert_eq!(units[2..], [("value", WordUnit::Register); 5]);
    assert_eq!(record.words[record.states_at], T + 9);
}

// Shows: fresh-records.
#[test]
fn registers_that_begin_anew_are_counted() {
    let world = World::new(MAP);
    let mut service = world.attach();
    for (key, value, expires_ms) in
        [("number", "7", 0), ("short", "12345", 0), ("long", "123456x", 0), ("gone", "1234567x", T)]
    {
        service.set_register("redis", key, value, expires_ms, T - 1).unwrap();
    }
    let fresh = |from: &str, to: &str| {
        assert!(MAP.contains(from), "{from}");
        let conf = World::of(&world.dir, &MAP.replace(from, to)).conf.clone();
        let told = fresh_records(&conf, T, None).unwrap();
        told.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let register = "<register text-bytes=\"40\"/>";
    let one = "biz redis: 1 live record begins anew, without their values: \
               text-bytes was 40 and is 6, and their texts are longer";
    assert_eq!(fresh(register, "<register text-bytes=\"6\"/>"), [one]);
    assert_eq!(fresh(register, "<register text-bytes=\"7\"/>"), [""; 0]);
    assert_eq!(fresh(register, "<register text-bytes=\"48\"/>"), [""; 0]);
    let limits = "<limit policy=\"total\" max=\"3\"/>";
    let all = "biz redis: 3 live records begin anew, without their values: \
               it had registers and has limits";
    assert_eq!(fresh(register, limits), [all]);
    service.one(Command::Update, "plain", "k", 1, T).unwrap();
    let limited = "biz plain: 1 live record begins anew, without counts and bans: \
                   it had limits and has registers";
    assert_eq!(fresh(limits, "<register/>"), [limited]);
}
