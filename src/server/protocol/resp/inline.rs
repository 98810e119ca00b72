//! A command that is a line, as people type it.
//!
//! Invariant: words are those that Redis reads from such a line: separated by white space, or in
//! quotation marks, in which `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` are escapes.

use super::scan::{CommandBounds, MAX_BULK_BYTES};
use super::{Args, Fault};

/// The header of a word: its length in four digits.
const HEADER_BYTES: usize = 7;

/// Reads the words of a line into `bulks`, which is emptied first.
pub fn read_line<'a>(
    line: &[u8],
    bounds: CommandBounds,
    bulks: &'a mut Vec<u8>,
) -> Result<Args<'a>, Fault> {
    bulks.clear();
    let (mut rest, mut count) = (line.trim_ascii_start(), 0);
    while !rest.is_empty() {
        if count == bounds.arguments as usize {
            return Err(Fault::TooManyArguments { most: bounds.arguments });
        }
        let from = bulks.len();
        bulks.extend_from_slice(b"$0000\r\n");
        rest = read_word(rest, bulks)?.trim_ascii_start();
        let mut length = bulks.len() - from - HEADER_BYTES;
        if length > MAX_BULK_BYTES {
            return Err(Fault::BulkTooLong { most: MAX_BULK_BYTES });
        }
        for digit in bulks[from + 1..from + 5].iter_mut().rev() {
            *digit = b'0' + (length % 10) as u8;
            length /= 10;
        }
        bulks.extend_from_slice(b"\r\n");
        count += 1;
    }
    Ok(Args::of_bulks(bulks, count))
}

/// Appends the word that the line begins with, and returns what follows it.
fn read_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Fault> {
    let mut quote = None;
    loop {
        rest = match (quote, rest) {
            (None, []) => return Ok(rest),
            (Some(_), []) => return Err(Fault::UnbalancedQuotes),
            (None, [byte, ..]) if byte.is_ascii_whitespace() => return Ok(rest),
            (None, [mark @ (b'"' | b'\''), tail @ ..]) => {
                quote = Some(*mark);
                tail
            }
            (Some(b'"'), [b'\\', b'x', high, low, tail @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(*high) * 16 + digit(*low));
                tail
            }
            (Some(b'"'), [b'\\', escaped, tail @ ..]) => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                tail
            }
            (Some(b'\''), [b'\\', b'\'', tail @ ..]) => {
                word.push(b'\'');
                tail
            }
            (Some(mark), [byte, tail @ ..]) if *byte == mark => {
                // A word ends with its quotation.
                return match tail {
                    [byte, ..] if !byte.is_ascii_whitespace() => Err(Fault::UnbalancedQuotes),
                    _ => Ok(tail),
                };
            }
            (_, [byte, tail @ ..]) => {
                word.push(*byte);
                tail
            }
        };
    }
}
