//! A short text being put together.
//!
//! Many short pieces are cheaper to copy into an array than to append to a vector that may grow at
//! each of them. The array is reused, as clearing it would cost more than filling it. Nothing is
//! ever written beyond it.

use crate::scan::Short;

/// Room for an element, or for the fields of a head.
#[derive(Debug, Clone)]
pub struct Line {
    bytes: [u8; Line::MAX_BYTES],
}

/// Writes into a [`Line`] from its beginning. Kept by value, and what is seldom written by a pen of
/// its own ([`Pen::aside`]), its place stays in a register.
#[derive(Debug)]
pub(super) struct Pen<'l> {
    bytes: &'l mut [u8; Line::MAX_BYTES],
    len: usize,
}

impl Line {
    /// More than the longest: the fields of a single item's answer have twice a biz's name of 64
    /// bytes and six numbers of 20 digits; an element has two short names and eight numbers.
    const MAX_BYTES: usize = 512;

    #[inline(always)]
    pub(super) fn pen(&mut self) -> Pen<'_> {
        Pen { bytes: &mut self.bytes, len: 0 }
    }
}

impl Pen<'_> {
    /// Adds text; what does not fit, which is never, is left out.
    #[inline(always)]
    pub fn text(&mut self, text: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + text.len()) {
            room.copy_from_slice(text);
            self.len += text.len();
        }
    }

    /// As [`Pen::text`], of a short one.
    #[inline(always)]
    pub fn short_text(&mut self, text: Short<'_>) {
        match self.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = *text.bytes;
                self.len += text.len;
            }
            None => self.aside(|pen| pen.text(&text.bytes[..text.len])),
        }
    }

    /// Has `write` go on with another pen.
    #[inline(always)]
    pub fn aside(&mut self, write: impl FnOnce(&mut Pen<'_>)) {
        let mut pen = Pen { bytes: self.bytes, len: self.len };
        write(&mut pen);
        self.len = pen.len;
    }

    #[inline(always)]
    pub fn number(&mut self, number: u64) {
        if number < 10 {
            self.text(&[b'0' + number as u8]);
        } else if number < EIGHT_DIGITS {
            self.short(number, false);
        } else if number < EIGHT_DIGITS * EIGHT_DIGITS {
            self.short(number / EIGHT_DIGITS, false);
            self.short(number % EIGHT_DIGITS, true);
        } else {
            self.aside(|pen| pen.long(number));
        }
    }

    #[cold]
    fn long(&mut self, number: u64) {
        self.text(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Adds a number of up to eight digits, with all of its leading zeros or without.
    #[inline(always)]
    fn short(&mut self, number: u64, whole: bool) {
        let digits = digits(number);
        // Of 0 too one digit is left.
        let zeros = if whole { 0 } else { (digits | (1 << 56)).trailing_zeros() / 8 };
        let text = ((digits | ZEROS) >> (8 * zeros)).to_le_bytes();
        let len = 8 - zeros as usize;
        match self.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            // All eight are copied, whatever is behind the number.
            Some(room) => {
                *room = text;
                self.len += len;
            }
            None => self.aside(|pen| pen.text(&text[..len])),
        }
    }

    /// Adds a number of thousandths: as many decimals as it has, three at most.
    pub fn thousandths(&mut self, number: u32) {
        self.number(u64::from(number / 1000));
        let decimals = number % 1000;
        if decimals > 0 {
            let digits = [decimals / 100, decimals / 10 % 10, decimals % 10];
            let zeros = digits.iter().rev().take_while(|&&digit| digit == 0).count();
            self.text(b".");
            digits[..3 - zeros].iter().for_each(|&digit| self.number(u64::from(digit)));
        }
    }

    /// Appends what is written to `out`, and begins anew.
    #[inline(always)]
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.len]);
        self.len = 0;
    }
}

/// The first number of more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;
/// Eight times the character 0.
const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// The eight decimal digits of a number below [`EIGHT_DIGITS`], one in each byte, the first one in the
/// lowest: halves it all at once, without a branch (Paul Khuong, "How to print integers really
/// fast", 2017).
#[inline(always)]
fn digits(number: u64) -> u64 {
    // In each half four digits, then two, then one; the quotients by multiplying, as they are exact
    // for so few digits.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | ((twos - tens * 10) << 8)
}

impl Default for Line {
    fn default() -> Self {
        Line { bytes: [0; Line::MAX_BYTES] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: u64) {
        let (mut line, mut out) = (Line::default(), Vec::new());
        let mut pen = line.pen();
        pen.text(b"<");
        pen.number(number);
        pen.text(b">");
        pen.flush(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("<{number}>"));
    }

    #[test]
    fn numbers() {
        (0..20_000).for_each(check);
        // Each half of eight digits, whatever the other one.
        for half in 0..10_000 {
            check(half * 10_000 + 9_999 - half);
        }
        let powers = (0..20).map(|power| 10u64.pow(power));
        powers.flat_map(|power| [power - 1, power, power + 1]).for_each(check);
        (0..16).for_each(|shift| check(u64::MAX >> shift));
    }

    #[test]
    fn thousandths() {
        for (number, expected) in [
            (0, "0"),
            (1, "0.001"),
            (10, "0.01"),
            (300, "0.3"),
            (305, "0.305"),
            (999, "0.999"),
            (1000, "1"),
            (1050, "1.05"),
            (2_500, "2.5"),
            (u32::MAX, "4294967.295"),
        ] {
            let (mut line, mut out) = (Line::default(), Vec::new());
            let mut pen = line.pen();
            pen.thousandths(number);
            pen.flush(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn the_end_of_the_line() {
        for free in 0..10 {
            let (mut line, mut out) = (Line::default(), Vec::new());
            let mut pen = line.pen();
            pen.text(&[b'x'; Line::MAX_BYTES][free..]);
            pen.number(12_345);
            pen.flush(&mut out);
            let expected = if free < 5 { "x" } else { "12345" };
            assert!(String::from_utf8(out).unwrap().ends_with(expected), "{free}");
        }
    }
}
