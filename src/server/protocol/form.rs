//! The parameters of a GET: `biz`, `key`, `count`, `member` and others.
//!
//! Invariant: each parameter occurs at most once, is percent-encoded with `+` for a space, and
//! decodes to UTF-8. Anything else is an error.

use super::{Error, Excerpt};
use frs_engine::{Extras, ItemOptions, Request};

/// The statuses that a refusal may have.
const REFUSALS: std::ops::RangeInclusive<u16> = 400..=599;

/// Text decoded from a target, in reused buffers.
#[derive(Debug, Default)]
pub struct Decoded {
    biz: Vec<u8>,
    key: Vec<u8>,
    member: Vec<u8>,
    rate: Vec<u8>,
    once: Vec<u8>,
    hold: Vec<u8>,
    other: Vec<u8>,
}

/// Parses a count: `-?[0-9]{1,10}` within 32 bits, otherwise `None`.
pub fn count(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let well_formed =
        matches!(digits.len(), 1..=10) && digits.bytes().all(|byte| byte.is_ascii_digit());
    // The parser of i32 accepts a leading plus, which the check above excludes.
    if well_formed { text.parse().ok() } else { None }
}

/// Parses a number that is not below 0: decimal digits of 64 bits, otherwise `None`.
pub fn number(text: &str) -> Option<u64> {
    // The parser of u64 would accept a leading plus.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Parses the status of a refusal.
pub fn refusal(text: &str) -> Option<u16> {
    let status = (text.len() == 3).then(|| text.parse().ok()).flatten()?;
    REFUSALS.contains(&status).then_some(status)
}

/// The names of the parameters.
#[cfg(any(test, feature = "testing"))]
pub const NAMES: [&str; 15] = [
    "biz", "key", "count", "force", "detail", "deny", "rate", "burst", "member", "max", "partial",
    "once", "hold", "ttl", "settle",
];

/// Adds the single item of a query string to the request. Returns the status of a refusal, if the
/// query names one.
pub fn parse(
    query: &str,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<Option<u16>, Error> {
    let mut seen = Seen(0);
    let (mut options, mut deny) = (ItemOptions::ONE, None);
    let mut extras = Extras::NONE;
    for pair in query.split('&') {
        let (name, raw) = pair.split_once('=').ok_or(unknown(pair))?;
        let Decoded { biz, key, member, rate, once, hold, other } = &mut *decoded;
        match name {
            "biz" => seen.value(0, name, raw, biz).map(drop)?,
            "key" => seen.value(1, name, raw, key).map(drop)?,
            "count" => options.count = count(seen.value(2, name, raw, other)?),
            "force" => options.force = flag(seen.value(3, name, raw, other)?)?,
            "detail" => options.detail = flag(seen.value(4, name, raw, other)?)?,
            "deny" => {
                let value = seen.value(5, name, raw, other)?;
                let what = "deny: expected a status of 400 to 599";
                let bad = Error::BadTarget { what, found: Excerpt::of(value) };
                deny = Some(refusal(value).ok_or(bad)?);
            }
            "rate" => seen.value(6, name, raw, rate).map(drop)?,
            "burst" => extras.burst = Some(number(seen.value(7, name, raw, other)?)),
            "member" => seen.value(8, name, raw, member).map(drop)?,
            "max" => extras.max = Some(number(seen.value(9, name, raw, other)?)),
            "partial" => extras.partial = flag(seen.value(10, name, raw, other)?)?,
            "once" => seen.value(11, name, raw, once).map(drop)?,
            "hold" => seen.value(12, name, raw, hold).map(drop)?,
            "ttl" => extras.ttl_ms = Some(number(seen.value(13, name, raw, other)?)),
            "settle" => extras.settle = flag(seen.value(14, name, raw, other)?)?,
            _ => return Err(unknown(name)),
        }
    }
    if !seen.has(0) || !seen.has(1) {
        let what = "expected both of the parameters biz and key";
        return Err(Error::BadTarget { what, found: Excerpt::NONE });
    }
    request.push(utf8(&decoded.biz)?, utf8(&decoded.key)?, options);
    for (parameter, text, value) in [
        (6, &mut extras.rate, &decoded.rate),
        (8, &mut extras.member, &decoded.member),
        (11, &mut extras.once, &decoded.once),
        (12, &mut extras.hold, &decoded.hold),
    ] {
        if seen.has(parameter) {
            *text = Some(utf8(value)?);
        }
    }
    if extras.is_any() {
        request.bring(extras);
    }
    Ok(deny)
}

/// Percent-decodes a path segment, in which `+` is a plus.
pub fn segment<'a>(raw: &str, decoded: &'a mut Decoded) -> Result<&'a str, Error> {
    decode(raw, &mut decoded.biz, b'+')
}

/// Percent-decodes the value of a parameter, in which `+` is a space.
pub fn value<'a>(raw: &str, decoded: &'a mut Decoded) -> Result<&'a str, Error> {
    decode(raw, &mut decoded.other, b' ')
}

/// The parameters that have occurred, one bit each.
struct Seen(u16);

impl Seen {
    fn has(&self, parameter: u8) -> bool {
        self.0 & 1 << parameter != 0
    }

    /// Decodes the value of a parameter, which must not have occurred before.
    fn value<'a>(
        &mut self,
        parameter: u8,
        name: &str,
        raw: &str,
        out: &'a mut Vec<u8>,
    ) -> Result<&'a str, Error> {
        if self.has(parameter) {
            let what = "a parameter occurs more than once";
            return Err(Error::BadTarget { what, found: Excerpt::of(name) });
        }
        self.0 |= 1 << parameter;
        decode(raw, out, b' ')
    }
}

fn unknown(name: &str) -> Error {
    let what = "unknown parameter: expected biz, key, count, force, detail, member, rate, burst, \
        max, partial, once, hold, ttl, settle or deny, as name=value";
    Error::BadTarget { what, found: Excerpt::of(name) }
}

fn flag(text: &str) -> Result<bool, Error> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => {
            let what = "expected true or false";
            Err(Error::BadTarget { what, found: Excerpt::of(text) })
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    let what = "not UTF-8 after percent-decoding";
    std::str::from_utf8(bytes).map_err(|_| Error::BadTarget { what, found: Excerpt::NONE })
}

fn decode<'a>(raw: &str, out: &'a mut Vec<u8>, plus: u8) -> Result<&'a str, Error> {
    out.clear();
    let mut rest = raw.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(match byte {
            b'+' => plus,
            b'%' => {
                let (pair, after) = rest.split_at_checked(2).ok_or_else(|| bad_escape(raw))?;
                rest = after;
                let digit = |byte: u8| (byte as char).to_digit(16).ok_or_else(|| bad_escape(raw));
                (digit(pair[0])? * 16 + digit(pair[1])?) as u8
            }
            _ => byte,
        });
    }
    utf8(out)
}

fn bad_escape(raw: &str) -> Error {
    let what = "bad percent-encoding: expected two hexadecimal digits after %";
    Error::BadTarget { what, found: Excerpt::of(raw) }
}

#[cfg(test)]
mod tests;
