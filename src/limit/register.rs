//! A register: a number or a text, and when it expires.
//!
//! Invariant: a value has one form. A text that reads as the decimal digits of an `i64`, written as
//! frs writes numbers, is a number. The words behind a value are zero, and those of a register that
//! is absent are all zero.
//!
//! ```text
//! 0    when it expires, in milliseconds since the epoch; 0: never
//! 1    kind (0..8): 1 a number, 2 a text | bytes of the text (8..24)
//! 2..  the number, or the text in little-endian words
//! ```

use frs_conf::{MAX_TEXT_BYTES, REGISTER_HEADER_BYTES, RegisterRoom};

use crate::{StateWord, WordUnit};

const EXPIRES: usize = 0;
const HEAD: usize = 1;
const VALUE: usize = 2;
const _: () = assert!(VALUE * 8 == REGISTER_HEADER_BYTES as usize);

/// The kinds of a value.
const NUMBER: u64 = 1;
const TEXT: u64 = 2;

/// The most digits of a number, with its sign.
const MAX_DIGITS: usize = 20;

/// A register as its record holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register<'w> {
    /// The value.
    pub value: RegisterValue<'w>,
    /// When it expires, in milliseconds since the epoch. 0: never.
    pub expires_ms: u64,
}

/// The value of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterValue<'w> {
    /// A number.
    Number(i64),
    /// Any bytes that are no number.
    Text(&'w [u8]),
}

impl<'w> RegisterValue<'w> {
    /// The value that these bytes stand for: a number if they are its one decimal form, without
    /// leading zeros, sign of plus or blanks; else a text.
    #[inline]
    pub fn of(bytes: &'w [u8]) -> RegisterValue<'w> {
        number(bytes).map_or(RegisterValue::Text(bytes), RegisterValue::Number)
    }
}

/// Room for the longest text.
pub type TextBytes = [u8; MAX_TEXT_BYTES as usize];

/// The place of a register in the record of a key: the first words behind the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterLayout {
    room: RegisterRoom,
}

impl RegisterLayout {
    /// The layout of a register with this room.
    pub const fn of(room: RegisterRoom) -> RegisterLayout {
        RegisterLayout { room }
    }

    /// Words of a register.
    pub const fn words(self) -> usize {
        self.room.words()
    }

    /// The longest text.
    pub const fn text_bytes(self) -> usize {
        self.room.text_bytes as usize
    }

    /// Whether the register has room for a value.
    pub fn takes(self, value: &RegisterValue<'_>) -> bool {
        match value {
            RegisterValue::Number(_) => true,
            RegisterValue::Text(text) => text.len() <= self.text_bytes(),
        }
    }

    /// The register of a record. Its text is copied to `text`. `None`: there is none, or it is not
    /// of this layout.
    #[inline]
    pub fn read<'t>(self, words: &[u64], text: &'t mut TextBytes) -> Option<Register<'t>> {
        let value = match kind(words[HEAD]) {
            NUMBER => RegisterValue::Number(words[VALUE] as i64),
            TEXT => {
                let len = text_len(words[HEAD]);
                let text = text.get_mut(..len).filter(|_| len <= self.text_bytes())?;
                for (bytes, word) in text.chunks_mut(8).zip(&words[VALUE..]) {
                    bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
                }
                RegisterValue::Text(text)
            }
            _ => return None,
        };
        Some(Register { value, expires_ms: words[EXPIRES] })
    }

    /// Writes a register, for whose value there is room.
    #[inline]
    pub fn write(self, words: &mut [u64], Register { value, expires_ms }: &Register<'_>) {
        debug_assert!(self.takes(value), "{value:?} in {self:?}");
        words[EXPIRES] = *expires_ms;
        let taken = match value {
            RegisterValue::Number(number) => {
                (words[HEAD], words[VALUE]) = (NUMBER, *number as u64);
                1
            }
            RegisterValue::Text(text) => {
                words[HEAD] = TEXT | (text.len() as u64) << 8;
                for (word, bytes) in words[VALUE..].iter_mut().zip(text.chunks(8)) {
                    let mut padded = [0; 8];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    *word = u64::from_le_bytes(padded);
                }
                text.len().div_ceil(8)
            }
        };
        words[VALUE + taken..].fill(0);
    }

    /// Whether a record is of this layout: there is none, or its text is not too long.
    #[inline]
    pub fn is_laid_out(self, words: &[u64]) -> bool {
        kind(words[HEAD]) != TEXT || text_len(words[HEAD]) <= self.text_bytes()
    }

    /// Whether there is a register that has not expired.
    #[inline]
    pub fn is_there(self, words: &[u64], now: u64) -> bool {
        kind(words[HEAD]) != 0 && !is_over(words[EXPIRES], now)
    }

    /// The number of a register. 0: it is negative, or the register is a text.
    pub(crate) fn counted(self, words: &[u64]) -> u64 {
        let number = if kind(words[HEAD]) == NUMBER { words[VALUE] as i64 } else { 0 };
        u64::try_from(number).unwrap_or(0)
    }

    /// The meaning of its words.
    pub(crate) fn state_words(self) -> impl Iterator<Item = StateWord> {
        let word = |name, unit| StateWord { limit: 0, name, unit };
        (0..self.words()).map(move |nth| match nth {
            EXPIRES => word("expires", WordUnit::Expiry),
            HEAD => word("register", WordUnit::Register),
            _ => word("value", WordUnit::Register),
        })
    }
}

/// Whether an expiry is not after `now`. At the millisecond of its expiry a register is gone.
#[inline]
pub const fn is_over(expires_ms: u64, now: u64) -> bool {
    expires_ms != 0 && expires_ms <= now
}

const fn kind(head: u64) -> u64 {
    head & 0xff
}

const fn text_len(head: u64) -> usize {
    (head >> 8) as u16 as usize
}

/// The number whose one decimal form these bytes are.
#[inline]
fn number(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_one_form = match digits {
        b"0" => bytes.len() == 1,
        [b'1'..=b'9', ..] => bytes.len() <= MAX_DIGITS,
        _ => false,
    };
    if !is_one_form {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: RegisterLayout = RegisterLayout::of(RegisterRoom { text_bytes: 20 });

    #[test]
    fn what_is_written_is_read() {
        let words = &mut [7; 8];
        for value in [
            RegisterValue::Number(0),
            RegisterValue::Number(i64::MIN),
            RegisterValue::Text(b""),
            RegisterValue::Text(b"\0\xff8 bytes"),
            RegisterValue::Text(&[b'x'; 20]),
            RegisterValue::Text(b"8 bytes."),
        ] {
            let register = Register { value, expires_ms: 9 };
            LAYOUT.write(words, &register);
            assert_eq!(LAYOUT.read(words, &mut [1; 512]), Some(register));
            assert!(LAYOUT.is_laid_out(words));
            assert_eq!([8, 9].map(|now| LAYOUT.is_there(words, now)), [true, false]);
            let behind = match value {
                RegisterValue::Number(_) => 1,
                RegisterValue::Text(text) => text.len().div_ceil(8),
            };
            assert!(words[2 + behind..].iter().all(|&word| word == 0), "{words:?}");
        }
        LAYOUT.write(words, &Register { value: RegisterValue::Number(1), expires_ms: 0 });
        assert!(LAYOUT.is_there(words, u64::MAX), "without an expiry it stays");
        assert_eq!(LAYOUT.read(&[0; 8], &mut [0; 512]), None);
        assert!(!LAYOUT.is_there(&[0; 8], 0));
    }

    #[test]
    fn a_text_that_is_too_long_is_of_another_layout() {
        assert!(LAYOUT.takes(&RegisterValue::Text(&[0; 20])));
        assert!(!LAYOUT.takes(&RegisterValue::Text(&[0; 21])));
        let (words, long) = (&mut [0; 70], RegisterLayout::of(RegisterRoom { text_bytes: 512 }));
        long.write(words, &Register { value: RegisterValue::Text(&[1; 21]), expires_ms: 0 });
        assert!(!LAYOUT.is_laid_out(words));
        assert_eq!(LAYOUT.read(words, &mut [0; 512]), None);
        words[HEAD] |= 0xffff << 8;
        assert_eq!(long.read(words, &mut [0; 512]), None, "a damaged length");
    }

    #[test]
    fn one_form_of_a_number_is_a_number() {
        for number in [0, 1, -1, 10, 42, i64::MAX, i64::MIN] {
            let text = number.to_string();
            assert_eq!(RegisterValue::of(text.as_bytes()), RegisterValue::Number(number));
        }
        let texts =
            ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "1e3", "9223372036854775808"];
        for text in texts {
            assert_eq!(RegisterValue::of(text.as_bytes()), RegisterValue::Text(text.as_bytes()));
        }
    }
}
