//! The header field `Idempotency-Key` of an Update: the id under which its item, or its atomic
//! request, is charged once (draft-ietf-httpapi-idempotency-key-header).
//!
//! Invariant: an id that the field and the document both name is the same one, so no request has
//! two. The service judges the length of an id, and not this reader.

use super::request_head::Lone;
use super::{Error, Excerpt};
use frs_engine::Request;

/// The field's id is cut behind this many bytes, up to the end of a character. That is one byte too
/// many for an id, so a cut one is still too long.
const ID_BYTES: usize = 65;

/// Replaces `id` with that of the field. Returns whether there is a field.
pub fn read(field: Lone<'_>, id: &mut String) -> Result<bool, Error> {
    let bad = |what, found| Err(Error::BadField { what, found });
    id.clear();
    let value = match field {
        Lone::Absent => return Ok(false),
        Lone::Once(value) => value.trim_ascii(),
        Lone::Repeated => {
            return bad("Idempotency-Key occurs more than once: expected one", Excerpt::NONE);
        }
    };
    let Ok(value) = std::str::from_utf8(value) else {
        return bad("bad Idempotency-Key: not UTF-8", Excerpt::NONE);
    };
    let Some(quoted) = value.strip_prefix('"') else {
        id.push_str(cut(value));
        return Ok(true);
    };
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '"' if letters.as_str().is_empty() => return Ok(true),
            '"' => break,
            '\\' => match letters.next() {
                Some(escaped @ ('"' | '\\')) => escaped,
                _ => break,
            },
            letter => letter,
        };
        if id.len() < ID_BYTES {
            id.push(letter);
        }
    }
    let what = "bad Idempotency-Key: expected an id, or one quoted string with \\\" and \\\\ for a \
                quotation mark and a backslash";
    bad(what, Excerpt::of(value))
}

/// Adds the id of the field to a request that has been read.
pub fn apply(id: &str, request: &mut Request) -> Result<(), Error> {
    let own = match request.items() {
        _ if request.atomic => request.once(),
        [item] => request.extras(item).once,
        _ => {
            let what = "Idempotency-Key with several items that are not atomic: expected once on \
                        each item, or an atomic request";
            return Err(Error::BadField { what, found: Excerpt::NONE });
        }
    };
    match own {
        Some(own) if cut(own) == id => Ok(()),
        Some(own) => {
            let what = "once is not the id of Idempotency-Key: expected one of the two, or the \
                        same in both";
            Err(Error::BadField { what, found: Excerpt::of(own) })
        }
        None if request.atomic => {
            request.set_once(id);
            Ok(())
        }
        None => {
            request.bring_once(id);
            Ok(())
        }
    }
}

fn cut(id: &str) -> &str {
    let end = (ID_BYTES..id.len()).find(|&end| id.is_char_boundary(end));
    &id[..end.unwrap_or(id.len())]
}

#[cfg(test)]
mod tests {
    use frs_engine::{Command, Extras, ItemOptions};

    use super::*;

    fn read_one(value: &str) -> Result<String, Error> {
        let mut id = "old".to_owned();
        assert!(read(Lone::Once(value.as_bytes()), &mut id)?);
        Ok(id)
    }

    #[test]
    fn ids_are_quoted_or_bare() {
        for (value, id) in [
            ("b7c1-4f", "b7c1-4f"),
            (" b7c1 ", "b7c1"),
            ("\"b7c1\"", "b7c1"),
            (r#""a\"b\\c d""#, r#"a"b\c d"#),
            ("\"\"", ""),
            ("", ""),
            ("a\"b", "a\"b"),
            ("\u{e9}", "\u{e9}"),
            ("\"\u{e9}\"", "\u{e9}"),
        ] {
            assert_eq!(read_one(value), Ok(id.to_owned()), "{value}");
        }
        let mut id = "old".to_owned();
        assert_eq!((read(Lone::Absent, &mut id), &*id), (Ok(false), ""));
    }

    #[test]
    fn an_id_is_cut_where_it_is_surely_too_long() {
        let longest = "k".repeat(64);
        assert_eq!(read_one(&longest), Ok(longest.clone()));
        assert_eq!(read_one(&format!("\"{longest}\"")), Ok(longest));
        for long in ["k".repeat(1000), format!("\"{}\"", "k".repeat(1000))] {
            assert_eq!(read_one(&long), Ok("k".repeat(65)));
        }
        for long in ["\u{e9}".repeat(500), format!("\"{}\"", "\u{e9}".repeat(500))] {
            assert_eq!(read_one(&long), Ok("\u{e9}".repeat(33)));
        }
    }

    #[test]
    fn anything_else_is_a_fault() {
        for value in ["\"a", "\"", "\"a\"b", "\"a\";x=1", "\"a\" \"b\"", r#""a\b""#, r#""a\"#] {
            let error = read_one(value).expect_err(value);
            assert_eq!((error.status(), error.code().word()), (400, "bad-request"), "{value}");
            assert!(!error.closes(), "{value}");
        }
        for field in [Lone::Repeated, Lone::Once(b"\xff")] {
            assert!(matches!(read(field, &mut String::new()), Err(Error::BadField { .. })));
        }
    }

    fn request(ids: &[Option<&str>], atomic: Option<Option<&str>>) -> Request {
        let mut request = Request::default();
        request.begin(Command::Update);
        request.atomic = atomic.is_some();
        for id in ids {
            request.push("b", "k", ItemOptions::ONE);
            if id.is_some() {
                request.bring(Extras { once: *id, max: Some(Some(7)), ..Extras::NONE });
            }
        }
        if let Some(Some(id)) = atomic {
            request.set_once(id);
        }
        request
    }

    /// The ids of the items and of the request.
    fn ids(request: &Request) -> (Vec<Option<&str>>, Option<&str>) {
        let ids = request.items().iter().map(|item| request.extras(item).once);
        (ids.collect(), request.once())
    }

    #[test]
    fn the_id_is_that_of_a_single_item_or_of_an_atomic_request() {
        for (mut asked, items, whole) in [
            (request(&[None], None), vec![Some("a")], None),
            (request(&[Some("a")], None), vec![Some("a")], None),
            (request(&[None], Some(None)), vec![None], Some("a")),
            (request(&[None, Some("b")], Some(None)), vec![None, Some("b")], Some("a")),
            (request(&[None, None], Some(Some("a"))), vec![None, None], Some("a")),
        ] {
            assert_eq!(apply("a", &mut asked), Ok(()));
            assert_eq!(ids(&asked), (items, whole));
        }
        for mut asked in [
            request(&[Some("b")], None),
            request(&[None], Some(Some("b"))),
            request(&[None, None], None),
        ] {
            let error = apply("a", &mut asked).expect_err("a fault");
            assert_eq!((error.status(), error.code().word()), (400, "bad-request"));
        }
    }

    #[test]
    fn other_options_of_the_item_stay() {
        let mut asked = Request::default();
        asked.begin(Command::Update);
        asked.push("b", "k", ItemOptions::ONE);
        asked.bring(Extras { rate: Some("5/s 6/m"), hold: Some("h"), ..Extras::NONE });
        let numbers = format!("{:?}", asked.numbers(&asked.items()[0]));
        apply("a", &mut asked).unwrap();
        let extras = asked.extras(&asked.items()[0]);
        let expected = Extras { hold: Some("h"), once: Some("a"), ..Extras::NONE };
        assert_eq!(extras, expected);
        assert_eq!(format!("{:?}", asked.numbers(&asked.items()[0])), numbers);
    }

    #[test]
    fn too_long_ids_are_equal_where_they_are_cut() {
        let long = "k".repeat(100);
        let mut asked = request(&[Some(&long)], None);
        let mut id = String::new();
        read(Lone::Once(long.as_bytes()), &mut id).unwrap();
        assert_eq!(apply(&id, &mut asked), Ok(()));
    }
}
