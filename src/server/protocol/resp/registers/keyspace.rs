//! EXISTS, DEL, UNLINK, TOUCH and TYPE, and the arguments of SCAN.
//!
//! Invariant: what counts registers counts one as often as it is named and there.

use super::{Args, RegisterFault, Within, Writer, matches, number};

/// The chains that SCAN looks for keys in, without COUNT.
const SCAN_COUNT: i64 = 10;
/// The longest pattern of SCAN: a key has no more bytes.
const MAX_PATTERN_BYTES: usize = 1024;
/// What SCAN compares in one call: the bytes of its pattern, times the chains that it looks at.
const COMPARED_BYTES: usize = 16 << 10;

pub(super) fn is_there(within: &mut Within<'_>, nth: usize) -> bool {
    within.get(nth).is_some()
}

pub(super) fn delete(within: &mut Within<'_>, nth: usize) -> bool {
    let is_there = is_there(within, nth);
    within.registers.remove(nth);
    is_there
}

pub(super) fn touch(within: &mut Within<'_>, nth: usize) -> bool {
    within.registers.touch(nth);
    is_there(within, nth)
}

pub(super) fn kind(within: &mut Within<'_>, nth: usize, writer: &mut Writer<'_>) {
    writer.simple(if is_there(within, nth) { "string" } else { "none" });
}

/// The arguments of SCAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanning<'a> {
    /// Where to go on.
    pub cursor: u64,
    /// About how many keys to look at: fewer with a long pattern.
    pub count: usize,
    pattern: Option<&'a [u8]>,
    /// Whether keys of strings are wanted: all registers are.
    wants_strings: bool,
}

impl Scanning<'_> {
    /// Whether a key is among those that are wanted.
    pub fn wants(&self, key: &[u8]) -> bool {
        self.wants_strings && self.pattern.is_none_or(|pattern| matches(pattern, key))
    }
}

/// Reads the arguments of SCAN.
///
/// # Errors
/// Those of Redis, and a pattern that is too long.
pub fn read_scan<'a>(mut args: Args<'a>) -> Result<Scanning<'a>, RegisterFault<'a>> {
    let cursor = cursor(args.next().unwrap_or_default())?;
    let (mut count, mut pattern, mut wants_strings) = (SCAN_COUNT, None, true);
    while let Some(option) = args.next() {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        let value = args.next().ok_or(RegisterFault::Syntax)?;
        if is("COUNT") {
            count = number(value)?;
            if count < 1 {
                return Err(RegisterFault::Syntax);
            }
        } else if is("MATCH") {
            if value.len() > MAX_PATTERN_BYTES {
                return Err(RegisterFault::PatternTooLong { most: MAX_PATTERN_BYTES });
            }
            pattern = Some(value).filter(|pattern| *pattern != b"*");
        } else if is("TYPE") {
            wants_strings = value.eq_ignore_ascii_case(b"string");
        } else {
            return Err(RegisterFault::Syntax);
        }
    }
    let most = pattern.map_or(usize::MAX, |pattern| COMPARED_BYTES / pattern.len().max(1));
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(most);
    Ok(Scanning { cursor, count, pattern, wants_strings })
}

/// A cursor as `strtoul` of C reads it.
fn cursor(text: &[u8]) -> Result<u64, RegisterFault<'static>> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number);
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    let number = number.ok_or(RegisterFault::Cursor)?;
    Ok(if text[0] == b'-' { number.wrapping_neg() } else { number })
}
