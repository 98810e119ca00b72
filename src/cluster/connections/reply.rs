//! Answers of a node, in RESP2.
//!
//! Invariant: every length is checked against its bound before memory is allocated for it. So an
//! answer takes no more memory than the bounds of this file, whatever a node sends.

use std::io::{self, BufRead, ErrorKind, Read as _};

use redis::Value;

/// Most bytes of one text: more than the longest record, INFO, or the view of a large cluster.
pub(super) const BULK_MAX: usize = 1 << 20;
/// Most bytes of the answers to a pipeline: one longest text, and for each command the bytes of a
/// record.
const FOR_EACH: usize = 64 << 10;
/// Most values in the answers to a pipeline: the view of a large cluster, and some for each
/// command.
const VALUES: usize = 1 << 17;
const VALUES_FOR_EACH: usize = 64;
/// Deepest nesting of lists.
const DEPTH_MAX: usize = 8;
/// Most bytes of a line, which may be an error.
const LINE_MAX: u64 = 16 << 10;

/// Most bytes of the answers to so many commands.
pub(super) fn bytes_for(commands: usize) -> usize {
    BULK_MAX + FOR_EACH.saturating_mul(commands)
}

/// The answers to a pipeline, with one bound for all their values.
pub(super) struct Answers {
    /// Values that are still allowed.
    values: usize,
}

impl Answers {
    /// The answers to so many commands.
    pub(super) fn new(commands: usize) -> Answers {
        Answers { values: VALUES + VALUES_FOR_EACH.saturating_mul(commands) }
    }

    /// Reads the next answer.
    pub(super) fn read(&mut self, from: &mut impl BufRead) -> io::Result<Value> {
        self.value(from, 0)
    }

    fn value(&mut self, from: &mut impl BufRead, depth: usize) -> io::Result<Value> {
        let left = self.values.checked_sub(1);
        self.values = left.ok_or_else(|| bad("more values", "those of an answer"))?;
        let line = line(from)?;
        let (kind, rest) = line.split_first().ok_or_else(|| bad("an empty line", "a value"))?;
        match kind {
            b'+' if rest == b"OK" => Ok(Value::Okay),
            b'+' => Ok(Value::SimpleString(String::from_utf8_lossy(rest).into_owned())),
            b'-' => server_error(&line),
            b':' => number(rest).map(Value::Int),
            b'$' => text(from, number(rest)?),
            b'*' => self.list(from, number(rest)?, depth),
            other => Err(bad(&format!("the byte {other:#04x}"), "one of + - : $ *")),
        }
    }

    fn list(&mut self, from: &mut impl BufRead, values: i64, depth: usize) -> io::Result<Value> {
        let Some(values) = length(values, self.values, "a list of")? else {
            return Ok(Value::Nil);
        };
        if depth == DEPTH_MAX {
            return Err(bad("a deeper list", &format!("at most {DEPTH_MAX} in each other")));
        }
        // Values take memory only after they have arrived.
        let mut list = Vec::new();
        for _ in 0..values {
            list.push(self.value(from, depth + 1)?);
        }
        Ok(Value::Array(list))
    }
}

/// A line, without its end.
fn line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    from.take(LINE_MAX).read_until(b'\n', &mut line)?;
    if line.ends_with(b"\r\n") {
        line.truncate(line.len() - 2);
        return Ok(line);
    }
    if line.last() == Some(&b'\n') || line.len() as u64 == LINE_MAX {
        let found = format!("a line of {} bytes without its end", line.len());
        return Err(bad(&found, "one that ends with CR LF"));
    }
    Err(closed())
}

fn text(from: &mut impl BufRead, bytes: i64) -> io::Result<Value> {
    let Some(bytes) = length(bytes, BULK_MAX, "a text of")? else { return Ok(Value::Nil) };
    let mut text = vec![0; bytes + 2];
    from.read_exact(&mut text).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => closed(),
        _ => error,
    })?;
    if !text.ends_with(b"\r\n") {
        return Err(bad("a text of another length", "CR LF behind it"));
    }
    text.truncate(bytes);
    Ok(Value::BulkString(text))
}

/// Checks a length. `None` for -1, which means that there is no value.
fn length(stated: i64, most: usize, what: &str) -> io::Result<Option<usize>> {
    if stated == -1 {
        return Ok(None);
    }
    let length = usize::try_from(stated).ok().filter(|&length| length <= most);
    let length = length.ok_or_else(|| bad(&format!("{what} {stated}"), &format!("0 to {most}")))?;
    Ok(Some(length))
}

fn number(digits: &[u8]) -> io::Result<i64> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| bad(&format!("{:?}", String::from_utf8_lossy(digits)), "a number"))
}

/// Parses the line of an error of the node.
fn server_error(line: &[u8]) -> io::Result<Value> {
    let line = [line, b"\r\n"].concat();
    redis::parse_redis_value(&line).map_err(|error| bad(&error.to_string(), "an error of a node"))
}

fn bad(found: &str, expected: &str) -> io::Error {
    let what = format!("in its answer: found {found}, expected {expected}");
    io::Error::new(ErrorKind::InvalidData, what)
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the node has closed the connection")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Value>, String> {
        let value = Answers::new(1).read(&mut &bytes[..]);
        value.map(|value| vec![value]).map_err(|error| error.to_string())
    }

    #[test]
    fn every_kind_of_answer_is_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for (bytes, value) in [
            ("+OK\r\n", Value::Okay),
            ("+QUEUED\r\n", Value::SimpleString("QUEUED".into())),
            (":-7\r\n", Value::Int(-7)),
            ("$-1\r\n", Value::Nil),
            ("*-1\r\n", Value::Nil),
            ("$0\r\n\r\n", text("")),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", {
                Value::Array(vec![Value::Array(vec![Value::Int(1)]), text("x")])
            }),
        ] {
            assert_eq!(read(bytes.as_bytes()), Ok(vec![value]), "{bytes:?}");
        }
        let moved = read(b"-MOVED 7 127.0.0.1:1\r\n").unwrap();
        let [Value::ServerError(error)] = &moved[..] else { panic!("{moved:?}") };
        assert_eq!((error.code(), error.details()), ("MOVED", Some("7 127.0.0.1:1")));
    }

    // Shows: cluster-links.
    #[test]
    fn a_length_beyond_the_bounds_is_refused_before_its_bytes_come() {
        let values = VALUES + VALUES_FOR_EACH - 1;
        for (bytes, words) in [
            ("$1048577\r\n", "found a text of 1048577, expected 0 to 1048576"),
            ("$9223372036854775807\r\n", "found a text of 9223372036854775807"),
            ("$-2\r\n", "found a text of -2"),
            ("*1000000000\r\n", &*format!("found a list of 1000000000, expected 0 to {values}")),
            ("$x\r\n", "found \"x\", expected a number"),
            ("%1\r\n", "found the byte 0x25, expected one of + - : $ *"),
            (&"*1\r\n".repeat(DEPTH_MAX + 1), "found a deeper list"),
            ("$1\r\nab\r\n", "found a text of another length"),
            ("+no end\n", "found a line of 8 bytes without its end"),
            (&"x".repeat(LINE_MAX as usize + 1), "found a line of 16384 bytes"),
        ] {
            let error = read(bytes.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{bytes:?}: {error}");
        }
        for cut in ["", ":1", "$4\r\nab", "*2\r\n:1\r\n"] {
            assert_eq!(read(cut.as_bytes()).unwrap_err(), closed().to_string(), "{cut:?}");
        }
        let lists = format!("*{values}\r\n").repeat(3);
        assert!(read(lists.as_bytes()).unwrap_err().contains("a list of"), "they count together");
        let (most, nothing) = (VALUES + 2 * VALUES_FOR_EACH - 1, "$-1\r\n");
        let full = format!("*{most}\r\n{}:1\r\n", nothing.repeat(most));
        let (mut answers, mut from) = (Answers::new(2), full.as_bytes());
        assert!(answers.read(&mut from).is_ok(), "as many as are allowed to both");
        let error = answers.read(&mut from).unwrap_err().to_string();
        assert!(error.contains("found more values"), "so do those of several answers: {error}");
    }
}
