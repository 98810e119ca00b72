//! The parameters of a GET: `biz`, `key`, `count`, `member` and others.
//!
//! Invariant: each parameter occurs at most once, is percent-encoded with `+` for a space, and
//! decodes to UTF-8. Anything else is an error.

use super::{Error, Excerpt};
use frs_conf::Rate;
use frs_engine::{CallRate, CallRateText, ItemOptions, Request};

/// The statuses that a refusal may have.
const REFUSALS: std::ops::RangeInclusive<u16> = 400..=599;

/// Text decoded from a target, in reused buffers.
#[derive(Debug, Default)]
pub struct Decoded {
    biz: Vec<u8>,
    key: Vec<u8>,
    member: Vec<u8>,
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

/// Parses the burst of a call: decimal digits of 64 bits, otherwise `None`.
pub fn burst(text: &str) -> Option<u64> {
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
pub const NAMES: [&str; 9] =
    ["biz", "key", "count", "force", "detail", "deny", "rate", "burst", "member"];

/// Adds the single item of a query string to the request. Returns the status of a refusal, if the
/// query names one.
pub fn parse(
    query: &str,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<Option<u16>, Error> {
    let mut seen = Seen(0);
    let (mut options, mut deny) = (ItemOptions::ONE, None);
    let mut call_rate = CallRateText::default();
    for pair in query.split('&') {
        let (name, raw) = pair.split_once('=').ok_or(unknown(pair))?;
        let Decoded { biz, key, member, other } = &mut *decoded;
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
            "rate" => call_rate.rate = Some(Rate::of_text(seen.value(6, name, raw, other)?)),
            "burst" => call_rate.burst = Some(burst(seen.value(7, name, raw, other)?)),
            "member" => seen.value(8, name, raw, member).map(drop)?,
            _ => return Err(unknown(name)),
        }
    }
    options.rate = CallRate::of_text(call_rate);
    if !seen.has(0) || !seen.has(1) {
        let what = "expected both of the parameters biz and key";
        return Err(Error::BadTarget { what, found: Excerpt::NONE });
    }
    request.push(utf8(&decoded.biz)?, utf8(&decoded.key)?, options);
    if seen.has(8) {
        request.bring_member(utf8(&decoded.member)?);
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
    let what = "unknown parameter: expected biz, key, count, force, detail, member, rate, burst \
        or deny, as name=value";
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
mod tests {
    use super::*;
    use frs_engine::Command;

    #[derive(Debug, PartialEq)]
    struct Row {
        biz: String,
        key: String,
        options: ItemOptions,
        deny: Option<u16>,
    }

    fn read(query: &str) -> Result<Row, Error> {
        let mut request = Request::default();
        request.begin(Command::Query);
        let deny = parse(query, &mut Decoded::default(), &mut request)?;
        let item = request.items()[0];
        let (biz, key) = (request.biz(&item).to_owned(), request.key(&item).to_owned());
        Ok(Row { biz, key, options: request.options(&item), deny })
    }

    fn row(biz: &str, key: &str) -> Row {
        Row { biz: biz.into(), key: key.into(), options: ItemOptions::ONE, deny: None }
    }

    #[test]
    fn each_parameter_is_named() {
        for name in NAMES {
            let found = read(&format!("biz=b&key=k&{name}=%"));
            let found = found.expect_err(name).to_string();
            assert!(!found.contains("unknown parameter"), "{name}: {found}");
            assert!(unknown("x").to_string().contains(name), "{name}");
        }
    }

    #[test]
    fn parameters() {
        assert_eq!(read("biz=login&key=alice"), Ok(row("login", "alice")));
        assert_eq!(read("key=a%20b+c%2B%c3%A9&biz=1"), Ok(row("1", "a b c+é")));
        assert_eq!(read("biz=b&key="), Ok(row("b", "")));
        assert_eq!(read("biz=b&key=a=b"), Ok(row("b", "a=b")));
        assert_eq!(
            read("detail=true&force=true&deny=403&count=-2&biz=b&key=k"),
            Ok(Row {
                options: ItemOptions::of(-2).forced().detailed(),
                deny: Some(403),
                ..row("b", "k")
            })
        );
        // A bad count is an error of the item, not of the request.
        assert_eq!(read("biz=b&key=k&count=x").unwrap().options.count, None);
        // The service judges characters that XML forbids.
        assert_eq!(read("biz=b&key=%00%ef%bf%bf").unwrap().key, "\0\u{FFFF}");
    }

    #[test]
    fn the_limit_of_the_call() {
        let rate = |query: &str| read(query).unwrap().options.rate;
        let minute = 60_000_000_000;
        assert_eq!(rate("biz=b&key=k&rate=30/m&burst=16"), Some(CallRate::new(30, minute, 16)));
        assert_eq!(rate("biz=b&key=k&burst=16&rate=30%2Fm"), Some(CallRate::new(30, minute, 16)));
        assert_eq!(rate("biz=b&key=k&rate=30/m"), Some(CallRate::new(30, minute, 30)));
        // A bad rate is an error of the item, not of the request.
        for bad in ["rate=30", "rate=", "burst=16", "rate=30/m&burst=-1", "rate=30/m&burst=+1"] {
            assert_eq!(rate(&format!("biz=b&key=k&{bad}")), Some(CallRate::BAD), "{bad}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        for query in [
            "",
            "biz=b",
            "key=k",
            "biz=b&key=k&",
            "biz=b&&key=k",
            "biz=b&key",
            "biz=b&key=k&x=y",
            "biz=b&key=k&biz=b",
            "Biz=b&key=k",
            "b%69z=b&key=k",
            "biz=b&key=%",
            "biz=b&key=%2",
            "biz=b&key=%2g",
            "biz=b&key=%+1",
            "biz=b&key=%ff",
            "biz=b&key=k&force=1",
            "biz=b&key=k&detail=TRUE",
            "biz=b&key=k&detail=",
            "biz=b&key=k&deny=399",
            "biz=b&key=k&deny=600",
            "biz=b&key=k&deny=+40",
            "biz=b&key=k&deny=0403",
            "biz=b&key=k&deny=",
            "biz=b&key=k&count=1&count=1",
            "biz=b&key=k&rate=1/s&rate=1/s",
            "biz=b&key=k&burst=1&burst=1",
        ] {
            let error = read(query).expect_err(query);
            assert_eq!((error.status(), error.code().word()), (400, "bad-request"), "{query}");
        }
    }

    #[test]
    fn counts() {
        for (text, expected) in [
            ("1", Some(1)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("007", Some(7)),
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("-2147483649", None),
            ("9999999999", None),
            ("00000000001", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.0", None),
            (" 1", None),
            ("١", None),
        ] {
            assert_eq!(count(text), expected, "{text:?}");
        }
    }
}
