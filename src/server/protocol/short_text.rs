//! Writes a short text from pieces.
//!
//! Copying many short pieces into an array is cheaper than appending them to a vector that may grow
//! at each. The array is reused, because clearing it would cost more than filling it. Invariant:
//! nothing is written beyond it. The compiler sees that an element fits behind [`Pen::make_room`],
//! and checks at few pieces only.

use super::format::ANSWER_BYTES;
use frs_base::scan::Short;

/// Room for the fields of a head, or for elements.
#[derive(Debug, Clone)]
pub struct Line {
    bytes: [u8; Line::MAX_BYTES],
    /// The text of the number that [`Pen::repeated`] wrote last.
    repeated: Digits,
}

/// The text of a number.
#[derive(Debug, Clone, Copy)]
struct Digits {
    number: u64,
    bytes: [u8; Digits::MAX_BYTES],
    len: u8,
}

/// Writes into a [`Line`] from its beginning. Its position stays in a register, because it is kept
/// by value and a second pen writes what is rare ([`Pen::aside`]).
#[derive(Debug)]
pub(super) struct Pen<'l> {
    line: &'l mut Line,
    len: usize,
}

impl Line {
    /// The most bytes of an element: an answer with two short names. The fields of a single item's
    /// head are shorter: a biz's name of 64 bytes twice, and six numbers of 20 digits.
    const ELEMENT_BYTES: usize = ANSWER_BYTES + 2 * Short::MAX_BYTES;
    /// Room for many elements, so that few copies are made.
    const MAX_BYTES: usize = 8 * Line::ELEMENT_BYTES;

    #[inline(always)]
    pub(super) fn pen(&mut self) -> Pen<'_> {
        Pen { line: self, len: 0 }
    }

    /// Puts text at a position. If it does not fit, writes nothing and returns false.
    #[inline(never)]
    fn put(&mut self, at: usize, text: &[u8]) -> bool {
        let room = self.bytes.get_mut(at..at + text.len());
        room.map(|room| room.copy_from_slice(text)).is_some()
    }
}

impl Digits {
    /// Digits of the largest number.
    const MAX_BYTES: usize = 20;

    /// The digits of any number, slowly.
    #[cold]
    fn of(number: u64) -> Digits {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(number).as_bytes();
        let mut bytes = [0; Digits::MAX_BYTES];
        bytes[..text.len()].copy_from_slice(text);
        Digits { number, bytes, len: text.len() as u8 }
    }
}

impl Pen<'_> {
    /// Adds text. Text that does not fit is left out, which never happens.
    #[inline(always)]
    pub fn text(&mut self, text: &[u8]) {
        if let Some(room) = self.line.bytes.get_mut(self.len..self.len + text.len()) {
            room.copy_from_slice(text);
            self.len += text.len();
        }
    }

    /// Adds the first `len` bytes. Copies all of them, which takes no loop and no call; what
    /// follows overwrites the others.
    #[inline(always)]
    fn beginning<const N: usize>(&mut self, bytes: &[u8; N], len: usize) {
        let room = self.line.bytes.get_mut(self.len..).and_then(|room| room.first_chunk_mut());
        if let Some(room) = room {
            *room = *bytes;
            self.len += len;
        }
    }

    /// Like [`Pen::text`], for a short text.
    #[inline(always)]
    pub fn short_text(&mut self, text: Short<'_>) {
        let Short { bytes, len } = text;
        match bytes.first_chunk() {
            Some(bytes) => self.beginning::<{ Short::MAX_BYTES }>(bytes, len),
            // Too few bytes follow it. The position stays in its register.
            None => {
                let text = &bytes[..len.min(bytes.len())];
                if self.line.put(self.len, text) {
                    self.len += text.len();
                }
            }
        }
    }

    /// Adds `true` or `false`.
    #[inline(always)]
    pub fn truth(&mut self, is_true: bool) {
        let word = if is_true { TRUE } else { FALSE };
        self.beginning(&word.to_le_bytes(), 5 - usize::from(is_true));
    }

    /// Lets `write` continue with another pen.
    #[inline(always)]
    pub fn aside(&mut self, write: impl FnOnce(&mut Pen<'_>)) {
        let mut pen = Pen { line: self.line, len: self.len };
        write(&mut pen);
        self.len = pen.len;
    }

    #[inline(always)]
    pub fn number(&mut self, number: u64) {
        if number < EIGHT_DIGITS {
            self.low(number);
        } else if number < EIGHT_DIGITS * EIGHT_DIGITS {
            self.low(number / EIGHT_DIGITS);
            self.last_digits(digits(number % EIGHT_DIGITS), 0);
        } else {
            let Digits { bytes, len, .. } = Digits::of(number);
            self.beginning(&bytes, usize::from(len).min(bytes.len()));
        }
    }

    /// Like [`Pen::number`], for a number that is usually the same as last time.
    #[inline(always)]
    pub fn repeated(&mut self, number: u64) {
        if self.line.repeated.number == number {
            let Digits { bytes, len, .. } = self.line.repeated;
            self.beginning(&bytes, usize::from(len));
            return;
        }
        let from = self.len;
        self.number(number);
        let written = self.line.bytes.get(from..).and_then(|bytes| bytes.first_chunk());
        if let Some(&bytes) = written {
            self.line.repeated = Digits { number, bytes, len: (self.len - from) as u8 };
        }
    }

    /// Adds a number of up to eight digits.
    #[inline(always)]
    fn low(&mut self, number: u64) {
        if number < 10 {
            self.text(&[b'0' + number as u8]);
        } else {
            let digits = digits(number);
            // One digit is left of 0, too.
            self.last_digits(digits, (digits | (1 << 56)).trailing_zeros() / 8);
        }
    }

    /// Adds eight digits without the first `zeros` of them.
    #[inline(always)]
    fn last_digits(&mut self, digits: u64, zeros: u32) {
        let text = ((digits | ZEROS) >> (8 * zeros)).to_le_bytes();
        self.beginning(&text, 8 - zeros as usize);
    }

    /// Adds a number of thousandths, with as many decimals as it has, at most three.
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

    /// Makes sure that the next element fits: appends the written text to `out` if it may not.
    #[inline(always)]
    pub fn make_room(&mut self, out: &mut Vec<u8>) {
        if self.len > Line::MAX_BYTES - Line::ELEMENT_BYTES {
            self.flush(out);
        }
    }

    /// Appends the written text to `out` and starts over.
    #[inline(always)]
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.line.bytes[..self.len]);
        self.len = 0;
    }
}

/// In one word, like digits.
const TRUE: u64 = u64::from_le_bytes(*b"true    ");
const FALSE: u64 = u64::from_le_bytes(*b"false   ");
/// The first number of more than eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;
/// Eight times the character 0.
const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// The eight decimal digits of a number below [`EIGHT_DIGITS`], one in each byte, the first in the
/// lowest byte. All are halved at once, without a branch (Paul Khuong, "How to print integers
/// really fast", 2017).
#[inline(always)]
fn digits(number: u64) -> u64 {
    // Each part has four digits, then two, then one. The quotients are computed by multiplication,
    // which is exact for so few digits.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    tens | ((twos - tens * 10) << 8)
}

impl Default for Line {
    fn default() -> Self {
        Line { bytes: [0; Line::MAX_BYTES], repeated: Digits::of(0) }
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
        // All values of each half of eight digits.
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
    fn a_repeated_number() {
        let (mut line, mut out, mut expected) = (Line::default(), Vec::new(), String::new());
        let mut pen = line.pen();
        for number in [0, 1, 0, 7, 6, 6, 10, 11, u64::MAX, u64::MAX, 0, 99_999_999, 100_000_000, 5]
        {
            pen.repeated(number);
            pen.text(b" ");
            // Other numbers do not change the remembered one.
            pen.number(number / 2);
            pen.text(b" ");
            expected += &format!("{number} {} ", number / 2);
        }
        pen.flush(&mut out);
        // The remembered number outlives the pen.
        let mut pen = line.pen();
        pen.repeated(5);
        pen.truth(true);
        pen.truth(false);
        pen.repeated(6);
        pen.flush(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected + "5truefalse6");
    }

    #[test]
    fn short_texts_with_anything_behind() {
        let text: Vec<u8> = (b'A'..=b'z').cycle().take(80).collect();
        for len in 0..=Short::MAX_BYTES {
            for behind in 0..=40 {
                let (mut line, mut out) = (Line::default(), Vec::new());
                let mut pen = line.pen();
                pen.text(b"<");
                pen.short_text(Short::of(&text[..3 + len + behind], 3..3 + len).unwrap());
                pen.text(b">");
                pen.flush(&mut out);
                assert_eq!(out, [b"<", &text[3..3 + len], b">"].concat(), "{len} {behind}");
            }
        }
    }

    #[test]
    fn room_that_was_made_holds_an_element() {
        let (mut line, mut out) = (Line::default(), Vec::new());
        let mut pen = line.pen();
        let mut len = 0;
        for bytes in (0..=Line::ELEMENT_BYTES).chain([Line::ELEMENT_BYTES; 20]) {
            pen.make_room(&mut out);
            pen.text(&[b'x'; Line::ELEMENT_BYTES][..bytes]);
            len += bytes;
        }
        pen.flush(&mut out);
        assert_eq!(out.len(), len);
    }

    #[test]
    fn the_end_of_the_line() {
        for free in 0..10 {
            let (mut line, mut out) = (Line::default(), Vec::new());
            let mut pen = line.pen();
            pen.text(&[b'x'; Line::MAX_BYTES][free..]);
            pen.number(12_345);
            pen.flush(&mut out);
            // All eight digits are copied.
            let expected = if free < 8 { "x" } else { "12345" };
            assert!(String::from_utf8(out).unwrap().ends_with(expected), "{free}");
        }
    }
}
