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
