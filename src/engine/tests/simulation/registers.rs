//! Registers: increments of one and of three keys, and numbers that are taken out. Invariant: no
//! acknowledged increment is lost, none counts twice, and three keys that are incremented together
//! are equal.

use std::cell::RefCell;

use super::Seen;
use super::oracle::{Charged, Oracle};
use super::player::{Draws, now};
use crate::{Register, RegisterValue, Registers, Service};

const BIZ: &str = "registers";
/// A key that is only incremented.
const GROWS: &str = "grows";
/// A key whose number is taken out now and then.
const TAKEN: &str = "taken";
/// Keys that are incremented together.
const THREE: [&str; 3] = ["a", "b", "c"];

/// What became of all increments.
#[derive(Debug, Default)]
pub(super) struct KnownRegisters {
    grows: Charged,
    taken: Charged,
    three: Charged,
    /// The sum of the numbers that were taken out.
    out: u64,
    /// Numbers that may have been taken out without an answer.
    open_takes: u64,
}

/// Makes one drawn change. The oracle sees it, and then its answer.
pub(super) fn ask(
    service: &mut Service,
    oracle: &RefCell<Oracle>,
    draws: &mut Draws,
    scribbles: bool,
) {
    service.begin_tick();
    match draws.draw(0, 6) {
        0..=1 => {
            let before = oracle.borrow().registers.grows.known;
            let sum = increment(service, oracle, &[GROWS], |known| &mut known.grows);
            let Charged { known, open } = oracle.borrow().registers.grows;
            let is_right = |sum: u64| (before + 1..=known + open).contains(&sum);
            assert!(
                scribbles || sum.is_none_or(is_right),
                "{sum:?} after {before}, {known} {open}"
            );
        }
        2 => drop(increment(service, oracle, &[TAKEN], |known| &mut known.taken)),
        3 => take(service, oracle),
        _ => drop(increment(service, oracle, &THREE, |known| &mut known.three)),
    }
}

/// Increments all keys, or none if one finds no room. Returns the number of the first.
fn increment(
    service: &mut Service,
    oracle: &RefCell<Oracle>,
    keys: &[&str],
    of: fn(&mut KnownRegisters) -> &mut Charged,
) -> Option<u64> {
    of(&mut oracle.borrow_mut().registers).open += 1;
    let biz = service.biz_of_registers(BIZ);
    let named: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let done = service.on_registers(biz, 0, &named, now(), |it| {
        let old: Vec<Option<u64>> = (0..keys.len()).map(|nth| number(it.get(nth))).collect();
        for (nth, number) in old.iter().enumerate() {
            let sum = RegisterValue::Number(number.unwrap_or(0) as i64 + 1);
            if it.set(nth, sum, 0).is_err() {
                put_back(it, &old[..nth]);
                return None;
            }
        }
        number(it.get(0))
    });
    let sum = done.ok().flatten();
    let mut oracle = oracle.borrow_mut();
    let known = of(&mut oracle.registers);
    known.open -= 1;
    known.known += u64::from(sum.is_some());
    sum
}

fn put_back(it: &mut dyn Registers, old: &[Option<u64>]) {
    for (nth, number) in old.iter().enumerate() {
        match number {
            Some(number) => {
                it.set(nth, RegisterValue::Number(*number as i64), 0).expect("it was there");
            }
            None => it.remove(nth),
        }
    }
}

fn number(register: Option<Register<'_>>) -> Option<u64> {
    match register?.value {
        RegisterValue::Number(number) => Some(number as u64),
        RegisterValue::Text(_) => None,
    }
}

fn take(service: &mut Service, oracle: &RefCell<Oracle>) {
    oracle.borrow_mut().registers.open_takes += 1;
    let biz = service.biz_of_registers(BIZ);
    let taken = service.on_registers(biz, 0, &[TAKEN.as_bytes()], now(), |it| {
        let taken = number(it.get(0));
        it.remove(0);
        taken.unwrap_or(0)
    });
    let known = &mut oracle.borrow_mut().registers;
    // After an error nothing was taken out.
    known.out += taken.unwrap_or(0);
    known.open_takes -= 1;
}

impl KnownRegisters {
    /// After all processes have ended.
    pub fn check(&self, service: &mut Service) -> Seen {
        let mut read = |key: &str| {
            let register = service.get_register(BIZ, key, now());
            register.map_or(0, |(number, _)| number.parse::<u64>().expect("a number"))
        };
        let is_right = |charged: &Charged, found: u64, has_least: bool| {
            let least = if has_least { charged.known } else { 0 };
            assert!((least..=charged.known + charged.open).contains(&found), "{found}: {self:?}");
        };
        is_right(&self.grows, read(GROWS), true);
        is_right(&self.taken, read(TAKEN) + self.out, self.open_takes == 0);
        let three = THREE.map(&mut read);
        assert!(three.iter().all(|&one| one == three[0]), "incremented by half: {three:?}");
        is_right(&self.three, three[0], true);
        let increments = self.grows.known + self.taken.known;
        Seen { increments, threes: self.three.known, taken: self.out, ..Seen::default() }
    }
}
