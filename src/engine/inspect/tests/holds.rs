//! The holds and the remembered ids of a record, as tools read them.

use frs_limit::{HoldState, WordUnit};

use super::{T, at, reader};
use crate::inspect::{Hold, NodeRecord};
use crate::testing::World;
use crate::{Answers, Command, Extras, ItemOptions, Request, Service, Verdict};

const MAP: &str = r#"<map>
  <group name="default" files="1" key-nodes="8" chain="8" node-size="512"/>
  <biz id="1" name="tokens" key="string" once="2" once-for="1m" holds="4" hold-ttl="10s">
    <limit policy="calendar" unit="month" max="9000" per-call="true"/>
    <limit policy="sliding-counter" interval="1m" max="900" per-call="true"/>
  </biz>
  <biz id="2" name="places" key="string" hold-ttl="10s" holds="5">
    <limit policy="concurrent" max="3"/>
    <limit policy="sliding" interval="1m" max="20"/>
  </biz>
  <biz id="3" name="plain" key="string"><limit policy="total" max="3"/></biz>
</map>"#;

fn update(service: &mut Service, biz: &str, count: i32, extras: Extras<&str>, now: u64) -> Verdict {
    let (mut request, mut answers) = (Request::default(), Answers::default());
    request.begin(Command::Update);
    request.push(biz, "k", ItemOptions::of(count));
    request.bring(extras);
    service.run(&request, now, &mut answers);
    answers.items.remove(0).result.unwrap()
}

fn hold(id: &str) -> Extras<&str> {
    Extras { hold: Some(id), ..Extras::NONE }
}

/// What a record says of its holds: count, state, age and life left.
fn told(record: &NodeRecord, now: u64) -> Vec<(u32, HoldState, u64, i64)> {
    let one =
        |hold: &Hold| (hold.count, hold.state, now - hold.made_ms, hold.end_ms as i64 - now as i64);
    record.holds.iter().flatten().map(one).collect()
}

#[test]
fn a_record_tells_its_holds_and_how_many_ids_it_remembers() {
    use HoldState::{Lapsed, Live, Settled};
    let world = World::new(MAP);
    let mut service = world.attach();
    let mut tokens = |count, extras, now| update(&mut service, "tokens", count, extras, now);
    tokens(80, hold("a"), T);
    tokens(70, hold("b"), T);
    tokens(60, Extras { ttl_ms: Some(Some(3000)), ..hold("c") }, T + 100);
    tokens(55, Extras { settle: true, ..hold("b") }, T + 100);
    for id in ["x", "y", "z"] {
        tokens(1, Extras { once: Some(id), ..Extras::NONE }, T + 100);
    }
    let mut reader = reader(&world);
    let mut record = |now| at(reader.node("tokens", "k", now).unwrap());

    let now = T + 1000;
    let early = record(now);
    let live = [(60, Live, 900, 2100), (80, Live, 1000, 9000)];
    assert_eq!(told(&early, now)[..2], live);
    assert_eq!(told(&early, now)[2].1, Settled);
    assert_eq!((early.held(), early.once_ids), (Some(140), Some(2)));
    let id = early.holds.as_ref().unwrap()[0].id.to_string();
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");

    // A view ends the lives that are over, and changes nothing.
    let now = T + 5000;
    assert_eq!(told(&record(now), now)[..2], [(80, Live, 5000, 5000), (60, Lapsed, 4900, -1900)]);
    assert_eq!(record(now).held(), Some(80));
    let late = record(T + 61_000);
    assert_eq!((late.held(), late.once_ids), (Some(0), Some(0)));
    assert_eq!(record(T + 1000), early);
}

#[test]
fn every_word_of_the_tables_has_a_name() {
    let world = World::new(MAP);
    let mut service = world.attach();
    update(&mut service, "tokens", 1, Extras { once: Some("x"), ..hold("a") }, T);
    let reader = &mut reader(&world);
    let record = at(reader.node("tokens", "k", T).unwrap());
    let words = reader.state_words(&record);
    let named = |name| {
        words.iter().zip(&record.words[record.states_at..]).find(move |(word, _)| word.name == name)
    };
    assert_eq!(named("unit").map(|(word, &value)| (word.unit, value)), {
        Some((WordUnit::CalendarUnit, 5))
    });
    assert_eq!(named("interval").map(|(word, &value)| (word.unit, value)), {
        Some((WordUnit::Milliseconds, 60_000))
    });
    for head in ["once", "holds"] {
        let entries = named(head).map(|(_, &head)| head as u32 >> 16);
        assert_eq!(entries, Some(1), "{head}");
    }
    let base = named("holds-base").unwrap();
    assert!(base.0.unit == WordUnit::Time && *base.1 <= T, "{base:?}");
    let of = |name| words.iter().filter(|word| word.name == name).count();
    // Ids: a word each, and two times in a word. Holds: three words each.
    assert_eq!((of("once-id"), of("hold")), (2 + 1, 4 * 3));
    assert_eq!(words.len(), 4 + 5 + (2 + 3) + (2 + 12));

    update(&mut service, "places", 1, hold("a"), T);
    let record = at(reader.node("places", "k", T).unwrap());
    let names: Vec<_> = reader.state_words(&record).iter().map(|word| word.name).collect();
    let ring_from = names.iter().position(|&name| name == "ring-base");
    assert_eq!((&names[..3], ring_from), (&["holds", "holds-base", "hold"][..], Some(2 + 5 * 3)));
    assert_eq!(reader.ring_times(&record), [T], "the ring is found behind the holds");
}

#[test]
fn places_lapse_and_a_business_without_tables_says_nothing_of_them() {
    let world = World::new(MAP);
    let mut service = world.attach();
    update(&mut service, "places", 2, hold("a"), T);
    update(&mut service, "plain", 1, Extras::NONE, T);
    let mut reader = reader(&world);
    let places = at(reader.node("places", "k", T).unwrap());
    assert_eq!((places.limits[0].figures.used, places.held()), (2, Some(2)));
    assert_eq!((told(&places, T), places.once_ids), (vec![(2, HoldState::Live, 0, 10_000)], None));
    let later = at(reader.node("places", "k", T + 10_000).unwrap());
    assert_eq!((later.held(), later.holds), (Some(0), Some(vec![])));
    let plain = at(reader.node("plain", "k", T).unwrap());
    assert_eq!((plain.held(), plain.holds, plain.once_ids), (None, None, None));
}
