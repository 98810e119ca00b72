//! A register: a number or a text, and when it expires.
//!
//! Invariant: a value has one form. A text that reads as the decimal digits of an `i64`, written as
//! frs writes numbers, is a number.

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
