//! Characters, names and attribute values of XML 1.0 (fifth edition).

use std::borrow::Cow;

use super::fault::XmlFault;

use frs_base::scan::ONES;

/// Whether a document may contain the character (production 2).
pub fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// The text with U+FFFD for each character that XML forbids.
pub fn replace_forbidden(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_char) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if is_char(c) { c } else { '\u{FFFD}' }).collect()
}

/// Finds characters that a document may not contain, in `text` at the offset `at`. Needed for text
/// that is not checked byte by byte.
pub fn check_chars(text: &str, at: usize) -> Result<(), XmlFault> {
    match text.char_indices().find(|&(_, c)| !is_char(c)) {
        Some((index, _)) => Err(XmlFault::xml("a character that XML forbids", at + index)),
        None => Ok(()),
    }
}

/// Bytes, besides its quote, at which the fast reading of an attribute's value stops: those to be
/// decoded, and those that may begin a character that XML forbids (0xEF begins U+FFFE and U+FFFF).
const STOPS_VALUE: [bool; 256] = {
    let mut stops = table(b"&<\xEF");
    let mut control = 0;
    while control < 0x20 {
        stops[control] = true;
        control += 1;
    }
    stops
};

/// What follows the plain part of a value: its quote, or a byte at which the fast reading stops.
/// `sure` becomes false unless it is known that [`may_be_special`] marks no byte before that.
#[inline(always)]
pub fn past_plain<'a>(mut rest: &'a [u8], quote: u8, sure: &mut bool) -> &'a [u8] {
    while let Some((word, more)) = rest.split_first_chunk() {
        let stops = may_be_special(u64::from_le_bytes(*word));
        if stops != 0 {
            rest = &rest[stops.trailing_zeros() as usize / 8..];
            break;
        }
        rest = more;
    }
    if rest.first() == Some(&quote) {
        return rest;
    }
    *sure = false;
    past_plain_bytes(rest, quote)
}

/// Like [`past_plain`], byte by byte, for what the word does not decide.
#[cold]
#[inline(never)]
fn past_plain_bytes(rest: &[u8], quote: u8) -> &[u8] {
    let stop = rest.iter().position(|&byte| byte == quote || STOPS_VALUE[usize::from(byte)]);
    &rest[stop.unwrap_or(rest.len())..]
}

/// The top bits of the bytes of `word` that may be special in a value: those at which its reading
/// stops, those its writing replaces, and some other rare ones. As in [`frs_base::scan::marks`],
/// the lowest set bit is always right.
#[inline(always)]
pub fn may_be_special(word: u64) -> u64 {
    let low = word.wrapping_sub(ONES * u64::from(b'('));
    // `<` and `>` differ in one bit.
    let brackets = (word & !(ONES * u64::from(b'<' ^ b'>'))) ^ (ONES * u64::from(b'<'));
    // A byte that is not ASCII has its top bit set already.
    (low | brackets.wrapping_sub(ONES) | word) & (ONES * 0x80)
}

/// Bytes that end a possible name in a tag.
pub const ENDS_NAME: [bool; 256] = table(b" \t\n\r=><\"'/");

const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut index = 0;
    while index < bytes.len() {
        table[bytes[index] as usize] = true;
        index += 1;
    }
    table
}

/// White space (production 3).
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether it is a name (production 5).
pub fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(is_name_start)
        && chars.all(|c| {
            is_name_start(c)
                || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}')
                || matches!(c, '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
        })
}

fn is_name_start(c: char) -> bool {
    matches!(c, ':' | '_' | 'A'..='Z' | 'a'..='z'
        | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}'
        | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
}

/// Resolves references and normalises white space (sections 2.11 and 3.3.3).
#[cold]
pub fn decode(raw: &str, at: usize, decoded: &mut String) -> Result<(), XmlFault> {
    check_chars(raw, at)?;
    decoded.clear();
    let mut rest = raw;
    while let Some(special) = rest.find(['&', '<', '\t', '\n', '\r']) {
        let here = at + raw.len() - rest.len() + special;
        decoded.push_str(&rest[..special]);
        rest = &rest[special..];
        match rest.as_bytes()[0] {
            b'&' => {
                let end = rest.find(';').ok_or(XmlFault::xml("expected ; after &", here))?;
                let character = reference(&rest[1..end])
                    .ok_or_else(|| XmlFault::found_xml(UNKNOWN, &rest[..=end], here))?;
                decoded.push(character);
                rest = &rest[end + 1..];
            }
            b'<' => return Err(XmlFault::xml("< in an attribute's value: expected &lt;", here)),
            _ => {
                decoded.push(' ');
                // A line end is one character, also as CR LF.
                rest = rest.strip_prefix("\r\n").unwrap_or(&rest[1..]);
            }
        }
    }
    decoded.push_str(rest);
    Ok(())
}

const UNKNOWN: &str =
    "expected a reference to lt, gt, amp, apos, quot or to a character XML allows";

/// The character of a reference between & and ;.
fn reference(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return match name {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "apos" => Some('\''),
            "quot" => Some('"'),
            _ => None,
        };
    };
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    // The integer parser would accept a sign.
    if !digits.bytes().all(|byte| (byte as char).is_digit(radix)) {
        return None;
    }
    let code = u32::from_str_radix(digits, radix).ok()?;
    char::from_u32(code).filter(|&c| is_char(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a plain value in this text, found byte by byte.
    fn plain_len(text: &[u8], quote: u8) -> usize {
        let stop = |byte: &u8| *byte == quote || *byte < 0x20 || b"&<\xEF".contains(byte);
        text.iter().position(stop).unwrap_or(text.len())
    }

    fn check_past_plain(text: &[u8], quote: u8) {
        let mut sure = true;
        let len = plain_len(text, quote);
        assert_eq!(past_plain(text, quote, &mut sure), &text[len..], "{text:?}");
        // This always holds, except for values at the very end of a text.
        let is_plain = text[..len].iter().all(|byte| (b'('..0x80).contains(byte) && *byte != b'<');
        let is_plain = is_plain && !text[..len].contains(&b'>');
        assert!(!sure || is_plain, "{text:?}");
        if is_plain && text.get(len) == Some(&quote) && len + 8 <= text.len() {
            assert!(sure, "{text:?}");
        }
    }

    #[test]
    fn plain_values_end_where_they_should() {
        for len in 0..20 {
            for at in 0..len {
                for byte in 0..=255 {
                    // The bytes passed before it may be rare ones.
                    for filling in [b'a', b'>', 0xC3] {
                        let mut text = vec![filling; len];
                        text[at] = byte;
                        for quote in [b'"', b'\''] {
                            check_past_plain(&text, quote);
                        }
                    }
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn plain_values_of_any_bytes(text: Vec<u8>) {
            for quote in [b'"', b'\''] {
                check_past_plain(&text, quote);
            }
        }
    }
}
