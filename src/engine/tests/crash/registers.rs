//! Cases of registers: one and several in a transaction, made, changed, removed.

use super::{Case, Cases, NOW, Seen, Sent, ask, kill_at_every_store};
use crate::testing::World;
use crate::{RegisterValue, Registers, Service};

const MAP: &str = r#"<map>
  <group name="g" files="2" key-nodes="2" chain="4" node-size="128" key-bytes="24"/>
  <group name="tiny" files="1" key-nodes="1" chain="3" node-size="128" key-bytes="24"/>
  <biz id="1" name="redis" group="g" key="string"><register/></biz>
  <biz id="2" name="full" group="tiny" key="string"><register/></biz>
</map>"#;

fn moved_map() -> String {
    MAP.replace(
        r#"files="2" key-nodes="2" chain="4" node-size="128" key-bytes="24""#,
        r#"files="1" key-nodes="3" chain="5" node-size="192" key-bytes="40""#,
    )
}

/// Counts that do something else than to add.
const WRITES_TEXT: i32 = 0;
const REMOVES: i32 = -1;
const EXPIRES: i32 = -2;

pub(super) fn has_registers(world: &World, biz: &str) -> bool {
    let map = &world.conf.map;
    map.find_biz(biz).is_some_and(|at| map.bizs[at].register.is_some())
}

/// Changes all registers of a case in one transaction.
pub(super) fn change(service: &mut Service, asks: &[Sent], now: u64) {
    let biz = service.biz_of_registers(asks[0].biz);
    let keys: Vec<&[u8]> = asks.iter().map(|sent| sent.key.as_bytes()).collect();
    let work = |it: &mut dyn Registers| {
        for (nth, sent) in asks.iter().enumerate() {
            let value = match (sent.count, it.get(nth)) {
                (REMOVES, _) => {
                    it.remove(nth);
                    continue;
                }
                (EXPIRES, _) => {
                    it.set_expiry(nth, now + 1000);
                    continue;
                }
                (WRITES_TEXT, _) => RegisterValue::Text(b"a text in two lines, as it is"),
                (count, Some(register)) => match register.value {
                    RegisterValue::Number(number) => {
                        RegisterValue::Number(number + i64::from(count))
                    }
                    RegisterValue::Text(_) => RegisterValue::Number(count.into()),
                },
                (count, None) => RegisterValue::Number(count.into()),
            };
            it.set(nth, value, now + 500).expect("room");
        }
    };
    service.begin_tick();
    service.on_registers(biz, 0, &keys, now, work).expect("held");
}

/// What is observable of a register, before the reader adds its words.
pub(super) fn seen(service: &mut Service, biz: &str, key: &str) -> Seen {
    service.begin_tick();
    let register = service.get_register(biz, key, NOW + 1);
    let used = register.into_iter().map(|(_, expires_ms)| expires_ms).collect();
    Seen { name: format!("{biz}/{key}"), used, banned: false, held: None, states: Vec::new() }
}

const MAKE: Case = Case::new("register-make", &[], &[ask("redis", "a", 1)]);
const ADD: Case = Case::new("register-add", &[ask("redis", "a", 3)], &[ask("redis", "a", 1)]);
const TEXT: Case =
    Case::new("register-text", &[ask("redis", "a", 3)], &[ask("redis", "a", WRITES_TEXT)]);
const EXPIRE: Case =
    Case::new("register-expire", &[ask("redis", "a", 3)], &[ask("redis", "a", EXPIRES)]);
const REMOVE: Case =
    Case::new("register-remove", &[ask("redis", "a", 3)], &[ask("redis", "a", REMOVES)]);
const EVICT: Case = Case::new(
    "register-evict",
    &[ask("full", "a", 1), ask("full", "b", 1), ask("full", "c", 1)],
    &[ask("full", "d", 1)],
);
/// One is changed, one is made, one is removed.
const THREE: Case = Case::new(
    "register-three",
    &[ask("redis", "a", 3), ask("redis", "b", WRITES_TEXT)],
    &[ask("redis", "a", 1), ask("redis", "c", WRITES_TEXT), ask("redis", "b", REMOVES)],
);
/// All three are in one chain, in which two make room.
const THREE_FULL: Case = Case::new(
    "register-three-full",
    &[ask("full", "a", 1), ask("full", "b", 1), ask("full", "c", 1)],
    &[ask("full", "d", 1), ask("full", "c", 1), ask("full", "e", 1)],
);
/// One register has two names.
const SAME: Case = Case::new(
    "register-same",
    &[ask("redis", "a", 3)],
    &[ask("redis", "a", 1), ask("redis", "b", 2), ask("redis", "a", 4)],
);

pub(super) const REGISTERS: Cases = Cases {
    map: MAP,
    moved_map,
    repeats: false,
    all: &[
        MAKE,
        ADD,
        TEXT,
        EXPIRE,
        REMOVE,
        EVICT,
        THREE,
        THREE_FULL,
        SAME,
        Case { name: "register-moving-add", ..ADD.moving() },
        Case { name: "register-moving-remove", ..REMOVE.moving() },
        Case { name: "register-moving-three", ..THREE.moving() },
    ],
};

// Shows: deaths-lose-nothing, growth, registers.
#[test]
fn death_at_every_store_of_registers() {
    kill_at_every_store(&REGISTERS);
}
