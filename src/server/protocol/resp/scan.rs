//! Where a command ends.
//!
//! Invariant: what a bulk holds is not looked at, each byte of a line is looked at once, and each
//! byte of a header at most as often as the longest header has bytes, however the input is cut.

use super::Fault;
use frs_conf::Http;

/// The longest bulk.
pub const MAX_BULK_BYTES: usize = 4096;
/// The longest command that is a line, without its end.
pub const MAX_INLINE_BYTES: usize = 8 << 10;
/// The most characters of the number in a header, with its sign.
const MAX_NUMBER_BYTES: usize = 11;
/// The bytes of the shortest bulk.
const MIN_BULK_BYTES: usize = 6;
/// The most arguments of a command without items.
const ARGUMENTS_BESIDES_ITEMS: u32 = 32;
/// The arguments of an item.
const ARGUMENTS_OF_ITEM: u32 = 3;

/// How large a command may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandBounds {
    /// Its arguments, with its name.
    pub arguments: u32,
    /// All of its bytes.
    pub bytes: usize,
}

impl From<&Http> for CommandBounds {
    #[inline]
    fn from(http: &Http) -> CommandBounds {
        let of_items = http.max_items.saturating_mul(ARGUMENTS_OF_ITEM);
        CommandBounds {
            arguments: of_items.saturating_add(ARGUMENTS_BESIDES_ITEMS),
            bytes: http.max_body_bytes as usize,
        }
    }
}

/// How far an incomplete command has been looked at. The default is its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scan {
    /// The first byte that is not looked at. 0: not even the kind of the command is known.
    at: usize,
    /// Bulks of an array behind `at`.
    left: u32,
}

/// What was found at the beginning of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scanned {
    /// Nothing to answer, in this many bytes: an empty line, or an array without elements.
    Empty(usize),
    /// A command that ends before this byte.
    Array(usize),
    /// A command that is a line and ends before this byte; the line itself is shorter.
    Line {
        /// Where the line ends.
        text: usize,
        /// Where the command does.
        end: usize,
    },
    /// The first line of a request in HTTP.
    Http,
    /// A part of a command, or nothing.
    Partial,
}

/// What begins with the kind of a header.
enum Header {
    /// A whole header: its number, and the byte after it.
    Whole {
        number: i64,
        end: usize,
    },
    Incomplete,
    Malformed,
}

impl Scan {
    /// Goes on with the command at the beginning of `input`, of which a part may have been looked
    /// at before.
    #[inline]
    pub fn scan(&mut self, input: &[u8], bounds: CommandBounds) -> Result<Scanned, Fault> {
        match input.first() {
            None => Ok(Scanned::Partial),
            Some(b'*') => self.array(input, bounds),
            Some(_) => self.line(input, bounds),
        }
    }

    fn array(&mut self, input: &[u8], bounds: CommandBounds) -> Result<Scanned, Fault> {
        if self.at == 0 {
            let (number, end) = match header(input, 0) {
                Header::Whole { number, end } => (number, end),
                Header::Incomplete => return Ok(Scanned::Partial),
                Header::Malformed => return Err(Fault::BadCount),
            };
            if number <= 0 {
                return Ok(Scanned::Empty(end));
            }
            let number = u32::try_from(number).ok().filter(|&number| number <= bounds.arguments);
            self.left = number.ok_or(Fault::TooManyArguments { most: bounds.arguments })?;
            self.at = end;
        }
        let too_long = Fault::CommandTooLong { most: bounds.bytes };
        while self.left > 0 {
            if self.at + MIN_BULK_BYTES * self.left as usize > bounds.bytes {
                return Err(too_long);
            }
            match input.get(self.at) {
                None => return Ok(Scanned::Partial),
                Some(b'$') => {}
                Some(&other) => return Err(Fault::ExpectedBulk(other)),
            }
            let (number, end) = match header(input, self.at) {
                Header::Whole { number, end } => (number, end),
                Header::Incomplete => return Ok(Scanned::Partial),
                Header::Malformed => return Err(Fault::BadLength),
            };
            let length = usize::try_from(number).map_err(|_| Fault::BadLength)?;
            if length > MAX_BULK_BYTES {
                return Err(Fault::BulkTooLong { most: MAX_BULK_BYTES });
            }
            if end + length + 2 > bounds.bytes {
                return Err(too_long);
            }
            match input.get(end + length..end + length + 2) {
                None => return Ok(Scanned::Partial),
                Some(b"\r\n") => {}
                Some(_) => return Err(Fault::UnendedBulk),
            }
            self.at = end + length + 2;
            self.left -= 1;
        }
        let end = self.at;
        *self = Scan::default();
        Ok(Scanned::Array(end))
    }

    fn line(&mut self, input: &[u8], bounds: CommandBounds) -> Result<Scanned, Fault> {
        if matches!(input[0], 0..=8 | 11..=12 | 14..=31 | 127) {
            return Err(Fault::NoCommand);
        }
        // The line and its end are within the bound of a command, too.
        let most = MAX_INLINE_BYTES.min(bounds.bytes.saturating_sub(2));
        let from = self.at.min(input.len());
        let found = input[from..].iter().position(|&byte| byte == b'\n');
        let text = &input[..found.map_or(input.len(), |at| from + at)];
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.len() > most {
            return Err(Fault::LineTooLong { most });
        }
        let Some(found) = found else {
            self.at = input.len();
            return Ok(Scanned::Partial);
        };
        *self = Scan::default();
        let end = from + found + 1;
        if is_http(text) {
            return Ok(Scanned::Http);
        }
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(Scanned::Empty(end));
        }
        Ok(Scanned::Line { text: text.len(), end })
    }
}

/// Whether a line is the first one of a request in HTTP.
fn is_http(line: &[u8]) -> bool {
    matches!(line, [.., b' ', b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'])
}

/// Reads the header whose kind is the byte at `at`.
#[inline]
fn header(input: &[u8], at: usize) -> Header {
    let (from, mut number, mut negative) = (at + 1, 0_i64, false);
    for (nth, &byte) in input[from..].iter().take(MAX_NUMBER_BYTES + 1).enumerate() {
        match byte {
            b'0'..=b'9' if nth < MAX_NUMBER_BYTES => number = number * 10 + i64::from(byte - b'0'),
            b'-' if nth == 0 => negative = true,
            b'\r' if nth > usize::from(negative) => {
                let number = if negative { -number } else { number };
                let end = from + nth + 2;
                return match input.get(end - 1) {
                    None => Header::Incomplete,
                    Some(b'\n') => Header::Whole { number, end },
                    Some(_) => Header::Malformed,
                };
            }
            _ => return Header::Malformed,
        }
    }
    Header::Incomplete
}
