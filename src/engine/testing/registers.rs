//! Registers in tests: owned values, and what programs do with them.

use std::collections::BTreeSet;

use crate::{ItemError, Register, RegisterError, RegisterScan, RegisterValue, Registers, Service};

/// A register that is owned: its value as text, and its expiry.
pub type Owned = (String, u64);

/// The value as Redis shows it. Bytes that are no UTF-8 are replaced.
pub fn shown(value: &RegisterValue<'_>) -> String {
    match value {
        RegisterValue::Number(number) => number.to_string(),
        RegisterValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

/// A register as owned.
pub fn owned(register: Register<'_>) -> Owned {
    (shown(&register.value), register.expires_ms)
}

/// Adds to each register of a transaction, keeps expiries, and returns the numbers.
pub fn add_all(registers: &mut dyn Registers, count: usize, add: i64) -> Vec<i64> {
    let mut sums = Vec::new();
    for nth in 0..count {
        let (number, expires_ms) = match registers.get(nth) {
            Some(Register { value: RegisterValue::Number(number), expires_ms }) => {
                (number, expires_ms)
            }
            _ => (0, 0),
        };
        let sum = number + add;
        if registers.set(nth, RegisterValue::Number(sum), expires_ms).is_ok() {
            sums.push(sum);
        }
    }
    sums
}

impl Service {
    /// The index of the business of registers with this name.
    pub fn biz_of_registers(&self, name: &str) -> usize {
        self.conf().map.find_biz(name).expect("in the map")
    }

    /// GET.
    pub fn get_register(&mut self, biz: &str, key: &str, now: u64) -> Option<Owned> {
        let biz = self.biz_of_registers(biz);
        let got = self.on_registers(biz, 0, &[key.as_bytes()], now, |it| it.get(0).map(owned));
        got.expect("held")
    }

    /// SET.
    pub fn set_register(
        &mut self,
        biz: &str,
        key: &str,
        value: &str,
        expires_ms: u64,
        now: u64,
    ) -> Result<(), RegisterError> {
        let biz = self.biz_of_registers(biz);
        let value = RegisterValue::of(value.as_bytes());
        let set =
            self.on_registers(biz, 0, &[key.as_bytes()], now, |it| it.set(0, value, expires_ms));
        set.expect("held")
    }

    /// DEL.
    pub fn remove_register(&mut self, biz: &str, key: &str, now: u64) {
        let biz = self.biz_of_registers(biz);
        self.on_registers(biz, 0, &[key.as_bytes()], now, |it| it.remove(0)).expect("held");
    }

    /// INCRBY of several keys in one transaction.
    pub fn add_to_registers(
        &mut self,
        biz: &str,
        keys: &[&str],
        add: i64,
        now: u64,
    ) -> Result<Vec<i64>, ItemError> {
        let biz = self.biz_of_registers(biz);
        let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        self.on_registers(biz, 0, &bytes, now, |it| add_all(it, keys.len(), add))
    }

    /// SCAN from the beginning to the end.
    pub fn all_registers(
        &mut self,
        biz: &str,
        database: u16,
        count: usize,
        now: u64,
    ) -> BTreeSet<String> {
        let (biz, mut all) = (self.biz_of_registers(biz), BTreeSet::new());
        let mut scan = RegisterScan { database, cursor: 0, count };
        for _ in 0..1_000_000 {
            let next = self.scan_registers(biz, scan, now, |key| {
                all.insert(String::from_utf8(key.to_vec()).expect("a text"));
            });
            scan.cursor = next.expect("served");
            if scan.cursor == 0 {
                return all;
            }
        }
        panic!("no end");
    }
}
