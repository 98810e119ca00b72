//! Generated documents; serde_json's own values are the oracle.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

/// The same document read as a value. This accepts more than frs does.
fn oracle(text: &str) -> Option<(bool, Vec<Row>)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let flag = |of: &Map<String, Value>, name| of.get(name).map_or(Some(false), Value::as_bool);
    let text = |value: &Value| match value {
        Value::String(text) => Some((text.clone(), false)),
        Value::Number(number) => {
            let text = number.to_string();
            text.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()).then_some((text, true))
        }
        _ => None,
    };
    let root = value.as_object()?;
    let mut rows = Vec::new();
    for item in root.get("items")?.as_array()? {
        let item = item.as_object()?;
        let ((biz, biz_is_number), (key, key_is_number)) =
            (text(item.get("biz")?)?, text(item.get("key")?)?);
        let count = match item.get("count") {
            None => Some(1),
            Some(Value::Number(number)) => number.as_i64().and_then(|count| count.try_into().ok()),
            Some(_) => return None,
        };
        let number = |name| match item.get(name) {
            None => Some(None),
            Some(Value::Number(number)) => Some(Some(number.as_u64())),
            Some(_) => None,
        };
        let id = |name| match item.get(name) {
            None => Some(None),
            Some(Value::String(text)) => Some(Some(text.clone())),
            Some(_) => None,
        };
        let rate = match item.get("rate") {
            None => None,
            Some(rate) => Some(text(rate)?.0),
        };
        rows.push(Row {
            extras: Extras {
                rate,
                burst: number("burst")?,
                max: number("max")?,
                partial: flag(item, "partial")?,
                member: id("member")?,
                once: id("once")?,
                hold: id("hold")?,
                ttl_ms: number("ttl")?,
                settle: flag(item, "settle")?,
            }
            .kept(),
            biz,
            key,
            count,
            force: flag(item, "force")?,
            detail: flag(item, "detail")?,
            are_numbers: ItemNames { biz: biz_is_number, key: key_is_number },
        });
    }
    let known = |of: &Map<String, Value>, names: &[&str]| of.keys().all(|k| names.contains(&&**k));
    let all_known = known(root, &["atomic", "items"])
        && root["items"]
            .as_array()?
            .iter()
            .all(|item| known(item.as_object().unwrap(), ITEM_MEMBERS));
    (all_known && !rows.is_empty()).then_some((flag(root, "atomic")?, rows))
}

/// A string in one of its many spellings.
fn string(text: &str, escape: bool) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' || escape => {
                c.encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| out += &format!("\\u{unit:04x}"));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

fn text_or_number() -> impl Strategy<Value = (String, bool)> {
    prop_oneof![
        "[a-z0-9]{0,8}".prop_map(|text| (text, false)),
        any::<String>().prop_map(|text| (text, false)),
        any::<u64>().prop_map(|number| (number.to_string(), true)),
        any::<i32>().prop_map(|number| (number.to_string(), true)),
    ]
}

fn extras() -> impl Strategy<Value = Extras<String>> {
    let rate = proptest::sample::select(vec!["30/m", "1/s 9/day", "", "30", "0/d", "9/é"]);
    let rate = proptest::option::weighted(0.3, rate.prop_map(str::to_owned));
    let number = || proptest::option::weighted(0.3, any::<u64>().prop_map(Some));
    let text = || proptest::option::weighted(0.3, "[a-z\"\\\\é]{0,6}");
    ((rate, number(), number(), number()), (text(), text(), text()), any::<[bool; 2]>()).prop_map(
        |((rate, burst, max, ttl_ms), (member, once, hold), [partial, settle])| Extras {
            rate,
            burst,
            max,
            partial,
            member,
            once,
            hold,
            ttl_ms,
            settle,
        },
    )
}

/// An item and one of its many spellings.
fn item() -> impl Strategy<Value = (Row, String)> {
    (
        text_or_number(),
        text_or_number(),
        proptest::option::of(any::<i32>()),
        proptest::option::of(any::<bool>()),
        proptest::option::of(any::<bool>()),
        extras(),
        (any::<bool>(), any::<bool>(), 0usize..14, "[ \t\r\n]{0,2}"),
    )
        .prop_map(
            |(biz, key, count, force, detail, extras, (escape, escape_names, turn, gap))| {
                let value = |(text, is_number): &(String, bool)| match is_number {
                    true => text.clone(),
                    false => string(text, escape),
                };
                let mut members = vec![("biz", value(&biz)), ("key", value(&key))];
                members.extend(count.map(|count| ("count", count.to_string())));
                members.extend(force.map(|force| ("force", force.to_string())));
                members.extend(detail.map(|detail| ("detail", detail.to_string())));
                let Extras { rate, member, once, hold, .. } = &extras;
                for (name, text) in
                    [("rate", rate), ("member", member), ("once", once), ("hold", hold)]
                {
                    members.extend(text.as_ref().map(|text| (name, string(text, escape))));
                }
                let numbers =
                    [("burst", extras.burst), ("max", extras.max), ("ttl", extras.ttl_ms)];
                for (name, number) in numbers {
                    members.extend(number.flatten().map(|number| (name, number.to_string())));
                }
                for (name, is_set) in [("partial", extras.partial), ("settle", extras.settle)] {
                    members.extend(is_set.then(|| (name, "true".to_owned())));
                }
                let turn = turn % members.len();
                members.rotate_left(turn);
                let members = members.into_iter().map(|(name, value)| {
                    format!("{gap}{}{gap}:{gap}{value}{gap}", string(name, escape_names))
                });
                let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
                let row = Row {
                    count: Some(count.unwrap_or(1)),
                    force: force.unwrap_or(false),
                    detail: detail.unwrap_or(false),
                    extras: extras.kept(),
                    are_numbers: ItemNames { biz: biz.1, key: key.1 },
                    ..row(&biz.0, &key.0)
                };
                (row, text)
            },
        )
}

fn document() -> impl Strategy<Value = ((bool, Vec<Row>), String)> {
    let items = proptest::collection::vec(item(), 1..=4);
    (items, proptest::option::of(any::<bool>()), any::<bool>(), "[ \t\r\n]{0,2}").prop_map(
        |(mut items, atomic, first, gap)| {
            if atomic == Some(true) {
                items.truncate(2);
            }
            let (rows, texts): (Vec<Row>, Vec<String>) = items.into_iter().unzip();
            let mut members =
                vec![format!("\"items\"{gap}:[{gap}{}]{gap}", texts.join(&format!("{gap},{gap}")))];
            if let Some(atomic) = atomic {
                members.insert(usize::from(!first), format!("\"atomic\":{gap}{atomic}"));
            }
            let text = format!("{gap}{{{gap}{}}}{gap}", members.join(","));
            ((atomic.unwrap_or(false), rows), text)
        },
    )
}

/// The document with some characters replaced.
fn damaged(text: &str, changes: Vec<(proptest::sample::Index, String, usize)>) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for (at, with, drop) in changes {
        let at = at.index(text.len());
        let end = (at + drop).min(text.len());
        text.splice(at..end, with.chars());
        if text.is_empty() {
            text.push(' ');
        }
    }
    text.into_iter().collect()
}

fn changes() -> impl Strategy<Value = Vec<(proptest::sample::Index, String, usize)>> {
    let with = "[{}\\[\\]:,\"\\\\u0a.eE+\\- nt]{0,2}";
    proptest::collection::vec((any::<proptest::sample::Index>(), with, 0usize..3), 1..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn documents_are_read_as_they_were_meant((expected, text) in document()) {
        prop_assert_eq!(oracle(&text), Some(expected.clone()), "{}", &text);
        prop_assert_eq!(parse(&text), Ok(expected));
    }

    // Shows: bad-input.
    #[test]
    fn what_is_taken_is_json((_, text) in document(), changes in changes()) {
        let text = damaged(&text, changes);
        match (parse(&text), oracle(&text)) {
            (Ok(read), Some(expected)) => {
                // A value does not keep digits beyond 64 bits.
                let same = read == expected || text.bytes().filter(u8::is_ascii_digit).count() > 18;
                prop_assert!(same, "{text}\n{read:?}\n{expected:?}");
            }
            (Ok(_), None) => {
                // The oracle rejects a number out of range, or reads it as a float.
                let value = serde_json::from_str::<serde::de::IgnoredAny>(&text);
                prop_assert!(value.is_ok(), "{text}");
            }
            // Not a request, or one with a repeated member.
            (Err(error), oracle) => {
                let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
                let told = ["bad-request", "too-many-items"].contains(&error.code().word());
                let twice = error.to_string().contains("more than once");
                let null = error.to_string().starts_with("null");
                let fair = told || twice || null || !is_json || oracle.is_none();
                prop_assert!(fair, "{text}\n{error}");
            }
        }
    }

    #[test]
    fn places_are_those_of_the_document((_, text) in document(), changes in changes()) {
        let text = damaged(&text, changes);
        if let Err(error) = parse(&text) && let Some(position) = error.position() {
            let lines: Vec<&str> = text.trim_start_matches('\u{FEFF}').split('\n').collect();
            prop_assert!(position.line >= 1 && position.column >= 1, "{text}\n{error}");
            if !text.contains('\r') {
                let line = lines.get(position.line as usize - 1);
                prop_assert!(line.is_some(), "{text}\n{error} {position:?}");
                let columns = line.unwrap().chars().count() as u32 + 1;
                prop_assert!(position.column <= columns, "{text}\n{error} {position:?}");
            }
        }
    }

    #[test]
    fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse(&bytes);
        let _ = parse([b"{\"items\":[{\"biz\":", &bytes[..], b"}]}"].concat());
    }

    #[test]
    fn what_is_echoed_is_json(
        (biz, key) in (any::<String>(), any::<String>()),
        number in any::<u64>(),
    ) {
        let mut request = Request::default();
        request.push(&biz, &key, ItemOptions::ONE);
        request.push(&biz, &number.to_string(), ItemOptions::ONE);
        request.note_numbers(ItemNames { biz: false, key: true });
        let items = vec![answer(Err(ItemError::BadKey)); 2];
        let text = written(&request, &Answers { items, ..Answers::default() });
        let body = text.replace(",\"error\":\"bad-key\"}", "}");
        let as_xml = |text: &str| -> String {
            let is_char = crate::protocol::xml::is_char;
            text.chars().map(|c| if is_char(c) { c } else { '\u{FFFD}' }).collect()
        };
        let are_numbers = ItemNames { biz: false, key: true };
        let second = Row { are_numbers, ..row(&as_xml(&biz), &number.to_string()) };
        prop_assert_eq!(parse(body), Ok((false, vec![row(&as_xml(&biz), &as_xml(&key)), second])));
    }
}
