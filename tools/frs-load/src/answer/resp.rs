//! Answers over RESP, of version 2.
//!
//! Invariant: only an answer of the protocol's shape is accepted, to its last byte. What an array
//! promises to hold is not believed: nothing is reserved for it.

use super::said::{Said, Value};

/// Bytes of an answer beyond which it is a fault: 65,536 items of the longest kind fit.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// One value of the wire; an array is only its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'b> {
    Error(&'b str),
    Integer(i64),
    Bulk(&'b str),
    Array(usize),
}

/// Reads values one after the other.
struct Reader<'b> {
    rest: &'b [u8],
}

/// Where the answer at the start of `bytes` ends; none while it is incomplete.
pub fn end(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut reader = Reader { rest: bytes };
    let mut expected: usize = 1;
    while expected > 0 {
        let Some(part) = reader.part()? else {
            let is_long = bytes.len() > REPLY_BYTES_MAX;
            let fault = || format!("an answer of more than {REPLY_BYTES_MAX} bytes");
            return if is_long { Err(fault()) } else { Ok(None) };
        };
        expected -= 1;
        if let Part::Array(values) = part {
            expected = expected.saturating_add(values);
        }
    }
    Ok(Some(bytes.len() - reader.rest.len()))
}

/// What the state of the server does to a whole command that is valid, and its name over HTTP.
const STATES: [(&str, &str); 2] = [
    ("-ERR max number of clients reached", "overloaded"),
    ("-ERR Protocol error: the command was not complete in time", "timeout"),
];

/// The error of a whole command, if the server's state caused it.
pub fn state_error(body: &[u8]) -> Option<&'static str> {
    let said = |(words, _): &&(&str, _)| body.starts_with(words.as_bytes());
    STATES.iter().find(said).map(|(_, name)| *name)
}

/// Passes each item of a complete answer to `judge`: that of a command of one item, or of many.
pub fn read_items(
    body: &[u8],
    is_single: bool,
    mut judge: impl FnMut(&Said<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader { rest: body };
    match reader.whole()? {
        Part::Error(words) if is_single => {
            let words = words.strip_prefix("ERR ").ok_or_else(|| format!("error: {words}"))?;
            let word = words.split(' ').next().unwrap_or_default();
            let mut said = Said::default();
            said.take("error", Value::Bulk(word))?;
            judge(&said)
        }
        Part::Error(words) => Err(format!("error: {words}")),
        Part::Array(values) if is_single => judge(&reader.item(values)?),
        Part::Array(4) => {
            reader.expect(Part::Bulk("refused"))?;
            reader.expect(Part::Integer(0))?;
            reader.expect(Part::Bulk("items"))?;
            let items = reader.array()?;
            for _ in 0..items {
                let values = reader.array()?;
                judge(&reader.item(values)?)?;
            }
            Ok(())
        }
        part => Err(format!("expected a map, found {part:?}")),
    }
}

impl<'b> Reader<'b> {
    /// The next value; none while it is incomplete.
    fn part(&mut self) -> Result<Option<Part<'b>>, String> {
        let Some(line_end) = memchr::memchr(b'\n', self.rest) else { return Ok(None) };
        let (line, behind) = self.rest.split_at(line_end + 1);
        let Some((kind, text)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
            return Err("no RESP: a line without its kind or its end".to_owned());
        };
        let text = utf8(text)?;
        let length = || text.parse().map_err(|_| format!("no RESP: a length of {text}"));
        let part = match kind {
            b'-' => Part::Error(text),
            b':' => Part::Integer(text.parse().map_err(|_| format!("no RESP: an integer {text}"))?),
            b'*' => Part::Array(length()?),
            b'$' => {
                let length: usize = length()?;
                let Some(bulk) = behind.get(..length.saturating_add(2)) else { return Ok(None) };
                let text = bulk.strip_suffix(b"\r\n").ok_or("no RESP: a bulk without its end")?;
                self.rest = &behind[bulk.len()..];
                return Ok(Some(Part::Bulk(utf8(text)?)));
            }
            _ => return Err(format!("no RESP: a value of kind {}", kind.escape_ascii())),
        };
        self.rest = behind;
        Ok(Some(part))
    }

    /// The next value of an answer that is complete.
    fn whole(&mut self) -> Result<Part<'b>, String> {
        self.part()?.ok_or_else(|| "no RESP: the end".to_owned())
    }

    fn array(&mut self) -> Result<usize, String> {
        match self.whole()? {
            Part::Array(values) => Ok(values),
            part => Err(format!("expected a map, found {part:?}")),
        }
    }

    fn expect(&mut self, expected: Part<'_>) -> Result<(), String> {
        let found = self.whole()?;
        if found == expected {
            Ok(())
        } else {
            Err(format!("expected {expected:?}, found {found:?}"))
        }
    }

    /// A map of so many names and values together, whose first name is `limited` or `error`.
    fn item(&mut self, values: usize) -> Result<Said<'b>, String> {
        if !values.is_multiple_of(2) {
            return Err(format!("a map of {values} names and values"));
        }
        let mut said = Said::default();
        for place in 0..values / 2 {
            let name = match self.whole()? {
                Part::Bulk(name) => name,
                part => return Err(format!("expected a name, found {part:?}")),
            };
            if place == 0 && !matches!(name, "limited" | "error") {
                return Err(format!("expected limited first, found {name}"));
            }
            let value = match self.whole()? {
                Part::Integer(number) => Value::Integer(number),
                Part::Bulk(text) => Value::Bulk(text),
                part => return Err(format!("{name}: expected a value, found {part:?}")),
            };
            said.take(name, value)?;
        }
        Ok(said)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| format!("no RESP: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "*4\r\n$7\r\nlimited\r\n:0\r\n$4\r\nused\r\n:3\r\n";
    const TWO: &str = "*4\r\n$7\r\nrefused\r\n:0\r\n$5\r\nitems\r\n*2\r\n\
                       *2\r\n$7\r\nlimited\r\n:1\r\n*2\r\n$5\r\nerror\r\n$4\r\nbusy\r\n";

    /// What is said of `limited`, and the error.
    type Item = (Option<bool>, Option<String>);

    fn items(text: &str, is_single: bool) -> Result<Vec<Item>, String> {
        let mut items = Vec::new();
        read_items(text.as_bytes(), is_single, |said| {
            items.push((said.is_limited, said.error.as_deref().map(str::to_owned)));
            Ok(())
        })?;
        Ok(items)
    }

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        for text in [ONE, TWO, "-ERR busy (try again)\r\n"] {
            for cut in 0..text.len() {
                assert_eq!(end(&text.as_bytes()[..cut]), Ok(None), "{cut} of {text:?}");
            }
            let more = format!("{text}*2\r\n");
            assert_eq!(end(more.as_bytes()), Ok(Some(text.len())));
        }
    }

    #[test]
    fn items_of_both_forms() {
        assert_eq!(items(ONE, true), Ok(vec![(Some(false), None)]));
        let busy = || Some("busy".to_owned());
        assert_eq!(items(TWO, false), Ok(vec![(Some(true), None), (None, busy())]));
        assert_eq!(items("-ERR busy (try again)\r\n", true), Ok(vec![(None, busy())]));
    }

    #[test]
    fn the_servers_state_is_no_wrong_answer() {
        assert_eq!(state_error(b"-ERR max number of clients reached\r\n"), Some("overloaded"));
        assert_eq!(state_error(b"-ERR busy (try again)\r\n"), None);
        assert_eq!(state_error(ONE.as_bytes()), None);
    }

    #[test]
    fn answers_that_are_wrong() {
        for (text, what) in [
            ("+OK\r\n".to_owned(), "kind +"),
            (":1\n".to_owned(), "without its kind"),
            ("*-1\r\n".to_owned(), "a length of -1"),
            ("$2\r\nabc\r\n".to_owned(), "without its end"),
            (ONE.replace(":0", ":x"), "an integer x"),
        ] {
            assert!(end(text.as_bytes()).expect_err(&text).contains(what), "{text}");
        }
        for (text, is_single, what) in [
            ("-NOAUTH Authentication required.\r\n".to_owned(), true, "error: NOAUTH"),
            ("-ERR syntax\r\n".to_owned(), false, "error: ERR syntax"),
            (":1\r\n".to_owned(), true, "expected a map"),
            (ONE.replace("limited", "limitee"), true, "expected limited first"),
            (ONE.replace("used", "uses"), true, "unknown uses"),
            (ONE.replace(":0", ":2"), true, "limited has no value of its kind"),
            (ONE.replace("*4", "*3"), true, "a map of 3"),
            (TWO.replace("refused", "refuses"), false, "refused"),
            (ONE.to_owned(), false, "refused"),
        ] {
            let found = items(&text, is_single).expect_err(&text);
            assert!(found.contains(what), "{text:?}: {found}");
        }
    }
}
