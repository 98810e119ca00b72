//! Registers in memory, for tests of commands.
//!
//! Invariant: a register whose time has come is gone.

use std::collections::HashMap;

use frs_engine::{Register, RegisterError, RegisterValue, Registers};

/// The longest text.
pub const TEXT_BYTES: usize = 40;

/// A value of its own, with its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Number(i64),
    Text(Vec<u8>),
}

/// All registers, by the place that a test gives them.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The time.
    pub now_ms: u64,
    records: HashMap<usize, (Value, u64)>,
    /// The places that were touched.
    pub touched: Vec<usize>,
    /// Whether there is no room for another one.
    pub is_full: bool,
}

impl Registers for Memory {
    fn get(&self, nth: usize) -> Option<Register<'_>> {
        let (value, expires_ms) = self.records.get(&nth)?;
        let is_there = *expires_ms == 0 || *expires_ms > self.now_ms;
        let value = match value {
            Value::Number(number) => RegisterValue::Number(*number),
            Value::Text(text) => RegisterValue::Text(text),
        };
        is_there.then_some(Register { value, expires_ms: *expires_ms })
    }

    fn set(
        &mut self,
        nth: usize,
        value: RegisterValue<'_>,
        expires_ms: u64,
    ) -> Result<(), RegisterError> {
        let value = match value {
            RegisterValue::Text(text) if text.len() > TEXT_BYTES => {
                return Err(RegisterError::TextTooLong { most: TEXT_BYTES });
            }
            RegisterValue::Text(text) => Value::Text(text.to_vec()),
            RegisterValue::Number(number) => Value::Number(number),
        };
        if self.is_full && self.get(nth).is_none() {
            return Err(RegisterError::Full);
        }
        self.records.insert(nth, (value, expires_ms));
        Ok(())
    }

    fn set_expiry(&mut self, nth: usize, expires_ms: u64) {
        if let Some((_, at)) = self.records.get_mut(&nth) {
            *at = expires_ms;
        }
    }

    fn remove(&mut self, nth: usize) {
        self.records.remove(&nth);
    }

    fn touch(&mut self, nth: usize) {
        self.touched.push(nth);
    }
}

/// Registers of databases, by their keys.
#[derive(Debug, Clone, Default)]
pub struct Keyspace {
    /// The registers.
    pub memory: Memory,
    /// Their keys, in the order in which they came.
    names: Vec<(u16, Vec<u8>)>,
}

impl Keyspace {
    /// Runs `work` on registers in one transaction.
    pub fn transact(
        &mut self,
        database: u16,
        keys: &[&[u8]],
        work: &mut dyn FnMut(&mut dyn Registers),
    ) {
        let mut place = |key: &[u8]| {
            let name = (database, key.to_vec());
            self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
                self.names.push(name);
                self.names.len() - 1
            })
        };
        let places: Vec<usize> = keys.iter().map(|key| place(key)).collect();
        // A transaction that begins anew: nothing of the first time is kept.
        work(&mut Lent { memory: &mut self.memory.clone(), places: &places });
        work(&mut Lent { memory: &mut self.memory, places: &places });
    }

    /// Calls `each` with `count` keys from a cursor on, and returns the next cursor.
    pub fn scan(
        &self,
        database: u16,
        cursor: u64,
        count: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> u64 {
        let mut of_database = self.names.iter().filter(|(of, _)| *of == database);
        of_database.by_ref().skip(cursor as usize).take(count).for_each(|(_, key)| each(key));
        if of_database.next().is_some() { cursor + count as u64 } else { 0 }
    }

    /// The keys of a database.
    pub fn count(&self, database: u16) -> u64 {
        self.names.iter().filter(|(of, _)| *of == database).count() as u64
    }
}

/// The registers of one transaction.
struct Lent<'m> {
    memory: &'m mut Memory,
    places: &'m [usize],
}

impl Registers for Lent<'_> {
    fn get(&self, nth: usize) -> Option<Register<'_>> {
        self.memory.get(self.places[nth])
    }

    fn set(
        &mut self,
        nth: usize,
        value: RegisterValue<'_>,
        expires_ms: u64,
    ) -> Result<(), RegisterError> {
        self.memory.set(self.places[nth], value, expires_ms)
    }

    fn set_expiry(&mut self, nth: usize, expires_ms: u64) {
        self.memory.set_expiry(self.places[nth], expires_ms);
    }

    fn remove(&mut self, nth: usize) {
        self.memory.remove(self.places[nth]);
    }

    fn touch(&mut self, nth: usize) {
        self.memory.touch(self.places[nth]);
    }
}
