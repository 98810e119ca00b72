//! The working copies of the registers of one transaction, over whatever holds their records.
//!
//! Invariant: a copy is changed only if its record has room for it. Nothing is written before the
//! work is over.

use frs_limit::{Register, RegisterLayout, RegisterValue, TextBytes, is_over};

use super::{RegisterError, Registers};

/// What the work has done with a register.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    #[default]
    None,
    /// It was used, and stays as it is.
    Touched,
    /// It was set, removed, or made to expire.
    Changed,
}

#[derive(Debug, Clone, Copy, Default)]
enum Value {
    /// There is no register.
    #[default]
    Absent,
    Number(i64),
    /// The bytes of its text.
    Text(usize),
}

/// The working copy of a register.
#[derive(Debug, Clone)]
pub struct WorkingRegister {
    value: Value,
    expires_ms: u64,
    text: TextBytes,
    pub done: Use,
}

impl Default for WorkingRegister {
    fn default() -> WorkingRegister {
        WorkingRegister { value: Value::Absent, expires_ms: 0, text: [0; 512], done: Use::None }
    }
}

impl WorkingRegister {
    /// Takes the register of a record's words.
    #[inline]
    pub fn take(&mut self, layout: RegisterLayout, words: &[u64]) {
        self.done = Use::None;
        (self.value, self.expires_ms) = match layout.read(words, &mut self.text) {
            None => (Value::Absent, 0),
            Some(Register { value, expires_ms }) => {
                let value = match value {
                    RegisterValue::Number(number) => Value::Number(number),
                    RegisterValue::Text(text) => Value::Text(text.len()),
                };
                (value, expires_ms)
            }
        };
    }

    /// The register, unless it is absent or expired.
    #[inline]
    pub fn get(&self, now: u64) -> Option<Register<'_>> {
        let value = match self.value {
            Value::Absent => return None,
            Value::Number(number) => RegisterValue::Number(number),
            Value::Text(len) => RegisterValue::Text(&self.text[..len]),
        };
        let expires_ms = self.expires_ms;
        (!is_over(expires_ms, now)).then_some(Register { value, expires_ms })
    }

    fn set(&mut self, value: RegisterValue<'_>, expires_ms: u64) {
        self.value = match value {
            RegisterValue::Number(number) => Value::Number(number),
            RegisterValue::Text(text) => {
                self.text[..text.len()].copy_from_slice(text);
                Value::Text(text.len())
            }
        };
        (self.expires_ms, self.done) = (expires_ms, Use::Changed);
    }

    /// Whether there is a register, expired or not.
    pub fn is_held(&self) -> bool {
        !matches!(self.value, Value::Absent)
    }

    fn remove(&mut self) {
        (self.value, self.expires_ms, self.done) = (Value::Absent, 0, Use::Changed);
    }
}

/// What holds the records of registers.
pub trait Records {
    /// Makes sure that the record of a register has a place for the new register. Returns false if
    /// there is none.
    fn make_room(&mut self, nth: usize, register: &Register<'_>) -> bool;

    /// Frees the place of a register that was removed, for those that are set after it.
    fn free(&mut self, nth: usize);
}

/// The registers of a transaction, by their working copies.
pub struct WorkingRegisters<'a, R> {
    pub layout: RegisterLayout,
    /// The working copy of each key. Equal keys have the same one.
    pub copy_of: &'a [usize],
    pub copies: &'a mut [WorkingRegister],
    pub records: R,
    pub now: u64,
    /// A register found no room.
    pub was_full: bool,
}

impl<R: Records> WorkingRegisters<'_, R> {
    /// Removes a register. An expired one is removed, too: a clock that is set back would show it.
    fn remove_at(&mut self, at: usize) {
        if self.copies[at].is_held() {
            self.copies[at].remove();
            self.records.free(at);
        }
    }
}

impl<R: Records> Registers for WorkingRegisters<'_, R> {
    fn get(&self, nth: usize) -> Option<Register<'_>> {
        self.copies[self.copy_of[nth]].get(self.now)
    }

    fn set(
        &mut self,
        nth: usize,
        value: RegisterValue<'_>,
        expires_ms: u64,
    ) -> Result<(), RegisterError> {
        if !self.layout.takes(&value) {
            return Err(RegisterError::TextTooLong { most: self.layout.text_bytes() });
        }
        let at = self.copy_of[nth];
        if is_over(expires_ms, self.now) {
            self.remove_at(at);
        } else if self.records.make_room(at, &Register { value, expires_ms }) {
            self.copies[at].set(value, expires_ms);
        } else {
            self.was_full = true;
            return Err(RegisterError::Full);
        }
        Ok(())
    }

    fn set_expiry(&mut self, nth: usize, expires_ms: u64) {
        let at = self.copy_of[nth];
        let copy = &mut self.copies[at];
        if copy.get(self.now).is_none() {
            return;
        }
        if is_over(expires_ms, self.now) {
            self.remove_at(at);
        } else {
            (copy.expires_ms, copy.done) = (expires_ms, Use::Changed);
        }
    }

    fn remove(&mut self, nth: usize) {
        self.remove_at(self.copy_of[nth]);
    }

    fn touch(&mut self, nth: usize) {
        let copy = &mut self.copies[self.copy_of[nth]];
        if copy.get(self.now).is_some() {
            copy.done = copy.done.max(Use::Touched);
        }
    }
}
