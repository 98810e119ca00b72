//! The room of a register in the record of a key, and the bounds of registers.
//!
//! Invariant: a business has limits or registers, not both.

/// Bytes of a register before its value: its expiry, and its kind with the length of its text.
pub const REGISTER_HEADER_BYTES: u32 = 16;

/// The longest text of a register.
pub const MAX_TEXT_BYTES: u16 = 512;

/// The most registers of one transaction.
pub const MAX_REGISTERS: usize = 16;

/// The most databases of a `<resp>`.
pub const MAX_DATABASES: u16 = 1024;

/// `<register>`: the records of a business hold a number or a text each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterRoom {
    /// The longest text, 0..=512.
    pub text_bytes: u16,
}

impl RegisterRoom {
    /// 64-bit words of a register: its header, and a number or the longest text.
    pub const fn words(self) -> usize {
        let text = (self.text_bytes as usize).div_ceil(8);
        REGISTER_HEADER_BYTES as usize / 8 + if text == 0 { 1 } else { text }
    }
}
