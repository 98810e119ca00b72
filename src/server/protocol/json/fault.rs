//! Describes what is wrong at the place where the parser stopped.
//!
//! Pure: the description depends on the text before that place and the character at it, not on the
//! parser's message. Invariant: everything before the place is JSON of at most 30 levels, since the
//! parser goes no deeper.

const EARLY: &str = "the document ends too early";
const VALUE: &str = "expected a value";
const NAME: &str = "expected the name of a member in double quotes";
const COLON: &str = "expected : after the name of a member";
const IN_ARRAY: &str = "expected , or ] in an array";
const IN_OBJECT: &str = "expected , or } in an object";
const COMMA: &str = "a comma behind the last one";
const BEHIND: &str = "expected nothing behind the document";
const WORD: &str = "expected true, false or null";
const NUMBER: &str = "expected a number as JSON writes them";
const ESCAPE: &str = "expected \" \\ / b f n r t or u and four hexadecimal digits after \\";
const CONTROL: &str = "a control character in a string: expected an escape";
/// This fault is before the place.
pub(super) const HALF_PAIR: &str =
    "half of a surrogate pair: expected \\u and four digits for each half";

/// What precedes the place.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// Nothing, a bracket that opens an array, or a colon.
    Value,
    /// A brace that opens an object.
    Name,
    /// A comma.
    Comma,
    /// The name of a member.
    Colon,
    /// A whole value.
    End,
}

/// What is wrong at the byte `at`, where the parser stopped.
#[cold]
pub(super) fn words(text: &str, at: usize) -> &'static str {
    let bytes = text.as_bytes();
    let Some(&found) = bytes.get(at) else { return EARLY };
    // One bit for each level, 1 for an object. The first bit is the document.
    let (mut levels, mut before, mut pos) = (1_u32, Before::Value, 0);
    while pos < at {
        let in_object = levels > 1 && levels & 1 == 1;
        (before, pos) = match bytes[pos] {
            b' ' | b'\t' | b'\n' | b'\r' => (before, pos + 1),
            b'{' => {
                levels = levels << 1 | 1;
                (Before::Name, pos + 1)
            }
            b'[' => {
                levels <<= 1;
                (Before::Value, pos + 1)
            }
            b'}' | b']' => {
                levels >>= 1;
                (Before::End, pos + 1)
            }
            b',' => (Before::Comma, pos + 1),
            b':' => (Before::Value, pos + 1),
            b'"' => {
                let end = match behind_string(&bytes[pos + 1..]) {
                    Ok(rest) => bytes.len() - rest.len(),
                    Err(what) => return what,
                };
                let is_name = in_object && matches!(before, Before::Name | Before::Comma);
                (if is_name { Before::Colon } else { Before::End }, end)
            }
            first => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let length = bytes[pos..at].iter().take_while(|byte| is_part(byte)).count().max(1);
                let scalar = &bytes[pos..pos + length];
                match first {
                    b'-' | b'0'..=b'9' if pos + length == at && is_torn(scalar, found) => {
                        return NUMBER;
                    }
                    b'-' | b'0'..=b'9' => {}
                    _ if !matches!(scalar, b"true" | b"false" | b"null") => return WORD,
                    _ => {}
                }
                (Before::End, pos + length)
            }
        };
    }
    let in_object = levels > 1 && levels & 1 == 1;
    match before {
        // The parser stops a byte early at a control character in a string that it skips.
        Before::Value | Before::Name | Before::Comma if found == b'"' => {
            behind_string(&bytes[at + 1..]).err().unwrap_or(EARLY)
        }
        Before::Comma if found == (if in_object { b'}' } else { b']' }) => COMMA,
        Before::Comma if in_object => NAME,
        // It begins a number, and nothing follows.
        Before::Comma | Before::Value if found == b'-' => NUMBER,
        Before::Comma | Before::Value => VALUE,
        Before::Name => NAME,
        Before::Colon => COLON,
        Before::End if levels == 1 => BEHIND,
        Before::End if in_object => IN_OBJECT,
        Before::End => IN_ARRAY,
    }
}

/// Whether the text is no valid number, given that `found` follows.
fn is_torn(number: &[u8], found: u8) -> bool {
    let has = |parts: &[u8]| number.iter().any(|byte| parts.contains(byte));
    match found {
        _ if !number.last().is_some_and(u8::is_ascii_digit) => true,
        // Behind a leading zero.
        b'0'..=b'9' => true,
        b'.' => !has(b".eE"),
        b'e' | b'E' => !has(b"eE"),
        _ => false,
    }
}

/// What follows a string whose first quote has been read, or what is wrong in the string.
fn behind_string(mut rest: &[u8]) -> Result<&[u8], &'static str> {
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Ok(behind),
            [0..=0x1F, ..] => return Err(CONTROL),
            [b'\\', b'u', more @ ..] => match (unit(more), more.get(4..)) {
                (Some(0xD800..=0xDBFF), Some([b'\\', b'u', low @ ..])) => match unit(low) {
                    Some(0xDC00..=0xDFFF) => &low[4..],
                    Some(_) => return Err(HALF_PAIR),
                    None => return Err(ESCAPE),
                },
                (Some(0xD800..=0xDFFF), _) => return Err(HALF_PAIR),
                (Some(_), Some(more)) => more,
                _ => return Err(ESCAPE),
            },
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', more @ ..] => more,
            [b'\\', ..] => return Err(ESCAPE),
            [_, more @ ..] => more,
            [] => return Err(EARLY),
        };
    }
}

/// The value of four hexadecimal digits.
fn unit(digits: &[u8]) -> Option<u16> {
    let digits = digits.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
