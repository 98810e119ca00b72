//! Generated documents; quick-xml's own reader is the oracle.

use proptest::prelude::*;

use super::*;

/// The same document read by quick-xml's own reader, which accepts more than frs does.
fn oracle(text: &str) -> Option<(bool, Vec<Row>)> {
    use quick_xml::XmlVersion;
    use quick_xml::events::{BytesStart, Event};

    fn attributes(start: &BytesStart<'_>) -> Option<Vec<(String, String)>> {
        start
            .attributes()
            .map(|attribute| {
                let attribute = attribute.ok()?;
                let value = attribute.normalized_value(XmlVersion::Explicit1_0).ok()?;
                Some((attribute.key.into_inner().to_owned(), value.into_owned()))
            })
            .collect()
    }

    fn extras<'a>(get: impl Fn(&'static str) -> Option<&'a str>) -> Extras<String> {
        let text = |name| get(name).map(str::to_owned);
        let number = |name| get(name).map(crate::protocol::form::number);
        let flag = |name| get(name) == Some("true");
        Extras {
            rate: text("rate"),
            burst: number("burst"),
            max: number("max"),
            partial: flag("partial"),
            member: text("member"),
            once: text("once"),
            hold: text("hold"),
            ttl_ms: number("ttl"),
            settle: flag("settle"),
        }
    }

    let mut reader = quick_xml::Reader::from_str(text);
    reader.config_mut().check_comments = true;
    let (mut atomic, mut rows, mut open) = (false, Vec::new(), 0);
    loop {
        let event = reader.read_event().ok()?;
        match &event {
            Event::Start(start) | Event::Empty(start) => {
                let attributes = attributes(start)?;
                let get =
                    |name| attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
                match start.name().into_inner() {
                    "request" if open == 0 => atomic = get("atomic") == Some("true"),
                    "item" if open == 1 => rows.push(Row {
                        count: crate::protocol::form::count(get("count").unwrap_or("1")),
                        force: get("force") == Some("true"),
                        detail: get("detail") == Some("true"),
                        extras: extras(get).kept(),
                        ..row(get("biz")?, get("key")?)
                    }),
                    _ => return None,
                }
                open += u32::from(matches!(event, Event::Start(_)));
            }
            Event::End(_) => open -= 1,
            Event::Text(text) if text.trim().is_empty() => {}
            Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
            Event::Eof => return (open == 0).then_some((atomic, rows)),
            _ => return None,
        }
    }
}

fn text_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9]{0,8}",
        proptest::collection::vec(
            prop_oneof![
                Just('&'),
                Just('<'),
                Just('>'),
                Just('"'),
                Just('\''),
                Just('\t'),
                Just('\n'),
                Just('\r'),
                Just('\u{FFFD}'),
                Just('\u{EFFF}'),
                Just('é'),
                proptest::char::range(' ', '~'),
            ],
            0..8
        )
        .prop_map(String::from_iter),
    ]
}

fn any_extras() -> impl Strategy<Value = Extras<String>> {
    let text = || proptest::option::weighted(0.3, text_value());
    let number = || proptest::option::weighted(0.3, proptest::option::of(any::<u64>()));
    let texts = (text(), text(), text(), text());
    (texts, (number(), number(), number()), any::<[bool; 2]>()).prop_map(
        |((rate, member, once, hold), (burst, max, ttl_ms), [partial, settle])| Extras {
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
        text_value(),
        text_value(),
        proptest::option::of(any::<i32>()),
        proptest::option::of(any::<bool>()),
        proptest::option::of(any::<bool>()),
        any_extras(),
        (any::<bool>(), 0usize..14, any::<bool>(), any::<bool>()),
    )
        .prop_map(|(biz, key, count, force, detail, extras, (single, turn, open, hex))| {
            let mut parts = vec![("biz", biz.clone()), ("key", key.clone())];
            parts.extend(count.map(|count| ("count", count.to_string())));
            parts.extend(force.map(|force| ("force", force.to_string())));
            parts.extend(detail.map(|detail| ("detail", detail.to_string())));
            let Extras { rate, member, once, hold, .. } = extras.clone();
            for (name, text) in [("rate", rate), ("member", member), ("once", once), ("hold", hold)]
            {
                parts.extend(text.map(|text| (name, text)));
            }
            for (name, number) in
                [("burst", extras.burst), ("max", extras.max), ("ttl", extras.ttl_ms)]
            {
                let text = |number: Option<u64>| number.map_or("x".into(), |it| it.to_string());
                parts.extend(number.map(|number| (name, text(number))));
            }
            for (name, is_set) in [("partial", extras.partial), ("settle", extras.settle)] {
                parts.extend(is_set.then(|| (name, "true".to_owned())));
            }
            let turn = turn % parts.len();
            parts.rotate_left(turn);
            let quote = if single { '\'' } else { '"' };
            let mut text = String::from("<item");
            for (name, value) in parts {
                text += &format!(" {name}={quote}");
                for c in value.chars() {
                    match c {
                        '&' | '<' | '\t' | '\n' | '\r' if hex => {
                            text += &format!("&#x{:x};", c as u32)
                        }
                        '&' => text += "&amp;",
                        '<' => text += "&lt;",
                        '\t' | '\n' | '\r' => text += &format!("&#{};", c as u32),
                        c if c == quote => text += if single { "&apos;" } else { "&quot;" },
                        c => text.push(c),
                    }
                }
                text.push(quote);
            }
            text += if open { "></item>" } else { "/>" };
            let row = Row {
                count: Some(count.unwrap_or(1)),
                force: force.unwrap_or(false),
                detail: detail.unwrap_or(false),
                extras: extras.kept(),
                ..row(&biz, &key)
            };
            (row, text)
        })
}

fn document() -> impl Strategy<Value = ((bool, Vec<Row>), String)> {
    let gap =
        || prop_oneof![Just(""), Just(" "), Just("\r\n\t"), Just("<!-- a>b -->"), Just("<?p '>?>")];
    let items = proptest::collection::vec((gap(), item()), 1..=4);
    (gap(), items, gap(), proptest::option::of(any::<bool>())).prop_map(
        |(before, mut items, after, atomic)| {
            if atomic == Some(true) {
                items.truncate(2);
            }
            let atomic_text = atomic.map_or(String::new(), |a| format!(" atomic='{a}'"));
            let mut text = format!("{before}<request{atomic_text}>");
            let mut rows = Vec::new();
            for (gap, (row, item)) in items {
                text += gap;
                text += &item;
                rows.push(row);
            }
            text += after;
            text += "</request>";
            text += after;
            ((atomic.unwrap_or(false), rows), text)
        },
    )
}

/// Checks that a document reads the same when its items have other white space, which takes the
/// path for items in an unusual form.
fn read_alike(text: &str) {
    let other = text.replace("<item biz=", "<item\tbiz=");
    // The excerpt in an error may contain that white space.
    let read = |text: &str| {
        parse_once(text.as_bytes()).map_err(|error| format!("{error:?}").replace("\\t", " "))
    };
    assert_eq!(read(text), read(&other), "{text:?}");
}

#[test]
fn an_item_in_a_value_that_is_open_is_read_alike() {
    read_alike("<request atomic='false?&><!-- a>b --><item biz=\"7n\" key=\"k\"/></request>");
}

#[test]
fn values_of_any_length_with_anything_in_them_are_read_alike() {
    let ascii = (0..0x80).map(|byte| char::from(byte).to_string());
    let others = ["", "\u{80}", "é", "中", "\u{EFFF}", "\u{FFFD}", "\u{FFFE}", "\u{FFFF}", "🙂"];
    let references = ["&amp;", "&#x41;", "\r\n", "\"/>", "\"></item>", "\" count=\"2\"/>"];
    let others = others.into_iter().chain(references).map(str::to_owned);
    for odd in ascii.chain(others) {
        for len in [0, 1, 6, 7, 8, 9, 15, 16, 17, 33] {
            for at in (0..=len).filter(|at| at % 8 < 2 || at % 8 == 7) {
                let value = "k".repeat(at) + &odd + &"k".repeat(len - at);
                for (biz, key) in [("b", &value[..]), (&value, "k")] {
                    let item = format!("<item biz=\"{biz}\" key=\"{key}\"/>");
                    read_alike(&format!("<request>{item} <item biz='b' key='k'/></request>"));
                }
            }
        }
    }
}

#[test]
fn documents_cut_anywhere_are_read_alike() {
    let items = "<item biz=\"login\" key=\"alice\"/>\n<item biz=\"1\" key=\"é\" count=\"2\"/>\
                 <!-- --><item biz=\"1\" key=\"a b&#9;\"></item><item biz=\"1\" key=\"it's\" />";
    for text in [format!("<request>{items}</request>"), format!("<request>{items}{items}")] {
        for at in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
            read_alike(&text[..at]);
            for odd in ["\"", "<", ">", "/", " ", "x", "\0", "é", "\u{FFFE}"] {
                read_alike(&format!("{}{odd}{}", &text[..at], &text[at..]));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn well_formed_documents_are_read_as_they_were_meant((expected, text) in document()) {
        prop_assert_eq!(oracle(&text), Some(expected.clone()), "{}", &text);
        prop_assert_eq!(parse(text.as_bytes()), Ok(expected));
    }

    // Shows: bad-input.
    #[test]
    fn what_is_taken_quick_xml_takes_too(
        (_, text) in document(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), "[<>/=!?&;#'\" a\\]\\[-]{0,2}", 0usize..3), 1..3),
    ) {
        let mut text: Vec<char> = text.chars().collect();
        for (at, with, drop) in changes {
            let at = at.index(text.len());
            let end = (at + drop).min(text.len());
            text.splice(at..end, with.chars());
            if text.is_empty() {
                text.push(' ');
            }
        }
        let text: String = text.into_iter().collect();
        read_alike(&text);
        if let Ok(read) = parse(text.as_bytes()) {
            prop_assert_eq!(oracle(&text), Some(read), "{}", text);
        }
    }

    // Shows: bad-input.
    #[test]
    fn anything_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse(&bytes);
        let _ = parse(&[b"<request><item biz='", &bytes[..], b"'/></request>"].concat());
    }

    #[test]
    fn what_is_echoed_is_well_formed(biz in any::<String>(), key in any::<String>()) {
        let answers = Answers { items: vec![answer(Err(ItemError::BadKey))], ..Answers::default() };
        let text = written(&[(&biz, &key)], &answers);
        let body = text.replace("response>", "request>").replace(" error=\"bad-key\"", "");
        let as_xml = |text: &str| -> String {
            text.chars().map(|c| if value::is_char(c) { c } else { '\u{FFFD}' }).collect()
        };
        prop_assert_eq!(one(&body), Ok(row(&as_xml(&biz), &as_xml(&key))));
    }
}
