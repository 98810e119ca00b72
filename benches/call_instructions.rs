//! The instructions that the library takes for an item that brings more than a count: a rate, an
//! id, a hold. `just bench-instructions` runs them behind those of plain items.
//!
//! An item's options are read from text, as an HTTP client sends them.

#[allow(dead_code, reason = "a part of what the benches share")]
mod bench_store;
mod callgrind;

use frs_engine::{Command, Exchange, Extras, ItemOptions, Role, Service};

const KEYS: u64 = 4096;
const NOW: u64 = 1_700_000_000_000;
/// The items of a case in its shorter run.
const ITEMS: u64 = 6400;

const MAP: &str = r#"<map>
  <group name="some" files="1" key-nodes="512" chain="56" node-size="64" hash="bob"/>
  <group name="once" files="1" key-nodes="512" chain="56" hash="bob"/>
  <group name="holds" files="1" key-nodes="512" chain="56" hash="bob"/>
  <biz id="1" name="plain" group="some" key="string">
    <limit policy="interval" interval="24h" max="1000000"/>
  </biz>
  <biz id="2" name="called" group="some" key="string">
    <limit policy="interval" interval="24h" max="1000000" per-call="true"/>
  </biz>
  <biz id="3" name="once" group="once" key="string" once="8">
    <limit policy="interval" interval="24h" max="1000000"/>
  </biz>
  <biz id="4" name="reserve" group="holds" key="string" holds="4">
    <limit policy="interval" interval="24h" max="1000000"/>
  </biz>
  <biz id="5" name="places" group="holds" key="string">
    <limit policy="concurrent" max="4"/>
  </biz>
</map>"#;

/// What an item brings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brings {
    Nothing,
    /// The rate of its limit.
    Rate,
    /// An id of its own.
    Once,
    /// A hold of its own, which the next item of the key settles.
    Reservation,
    /// A hold of its own, which the next item of the key lets go.
    Place,
}

struct Case {
    name: &'static str,
    biz: &'static str,
    brings: Brings,
}

const CASES: [Case; 8] = [
    Case { name: "plain", biz: "plain", brings: Brings::Nothing },
    Case { name: "per-call, no rate", biz: "called", brings: Brings::Nothing },
    Case { name: "per-call, a rate", biz: "called", brings: Brings::Rate },
    Case { name: "once, no id", biz: "once", brings: Brings::Nothing },
    Case { name: "once, an id", biz: "once", brings: Brings::Once },
    Case { name: "reserve, no hold", biz: "reserve", brings: Brings::Nothing },
    Case { name: "reserve, settle", biz: "reserve", brings: Brings::Reservation },
    Case { name: "hold, let go", biz: "places", brings: Brings::Place },
];

fn main() {
    callgrind::print(&CASES.map(|case| case.name), ITEMS, |case, items| run(&CASES[case], items));
}

fn run(case: &Case, items: u64) {
    const NONE: Extras<&str> = Extras::NONE;
    let dir = bench_store::directory();
    let srv = format!("<srv><data dir=\"{}\"/></srv>", dir.path().display());
    bench_store::fill_of(&dir, MAP, &srv, |_| {});
    let mut service = Service::attach(dir.path(), Role::Program, None).expect("an attachment");
    let keys: Vec<String> = (0..KEYS).map(|number| format!("user-{number:015}")).collect();
    let ids: Vec<String> =
        (0..KEYS + 2 * ITEMS).map(|number| format!("request-{number:08}")).collect();
    let has_pairs = matches!(case.brings, Brings::Reservation | Brings::Place);
    let mut exchanges = [Exchange::default()];
    // Every key exists before the items that count.
    let first = if has_pairs { 2 * KEYS } else { KEYS };
    for nth in 0..first + items {
        let ends = nth % 2 == 1;
        let number = if has_pairs { nth / 2 } else { nth };
        let key = &keys[(number.wrapping_mul(0x9e37_79b9) % KEYS) as usize];
        let id = &ids[number as usize];
        let lets_go = ends && case.brings == Brings::Place;
        let [Exchange { request, .. }] = &mut exchanges;
        request.begin(Command::Update);
        request.push(case.biz, key, ItemOptions::of(if lets_go { 0 } else { 1 }));
        match case.brings {
            Brings::Nothing => {}
            Brings::Rate => request.bring(Extras { rate: Some("1000000/24h"), ..NONE }),
            Brings::Once => request.bring(Extras { once: Some(id), ..NONE }),
            Brings::Reservation => {
                request.bring(Extras { hold: Some(id), settle: ends, ..NONE });
            }
            Brings::Place => request.bring(Extras { hold: Some(id), ..NONE }),
        }
        service.begin_tick();
        service.run_all(&mut exchanges, NOW);
        assert!(exchanges[0].answers.items.iter().all(|answer| answer.result.is_ok()));
    }
}
