//! JSON in requests and in answers.

use super::*;
use crate::protocol::document_format::{write, write_error};
use crate::protocol::{Bounds, Decoded, Error, Line, TextPosition};
use frs_engine::testing::kept::Kept;
use frs_engine::{Answer, Answers, Command, Extras, ItemError, ItemNames, ItemOptions, Request};

mod agreement;
mod properties;

const BOUNDS: Bounds = Bounds { max_items: 4, max_atomic_items: 2 };

#[derive(Debug, Clone, PartialEq)]
struct Row {
    biz: String,
    key: String,
    count: Option<i32>,
    force: bool,
    detail: bool,
    extras: Kept,
    are_numbers: ItemNames<bool>,
}

fn row(biz: &str, key: &str) -> Row {
    let (biz, key) = (biz.into(), key.into());
    let are_numbers = ItemNames::default();
    let extras = Extras::NONE.kept();
    Row { biz, key, count: Some(1), force: false, detail: false, extras, are_numbers }
}

fn parse(body: impl AsRef<[u8]>) -> Result<(bool, Vec<Row>), Error> {
    let mut request = Request::default();
    // What an earlier document left must not show.
    request.push("left", "over", ItemOptions::NO_COUNT.forced().detailed());
    let mut decoded = Decoded { biz: "left".into(), key: "over".into(), other: "by".into() };
    read(body.as_ref(), Command::Update, BOUNDS, &mut decoded, &mut request)?;
    assert_eq!(request.command, Command::Update);
    let rows = request.items().iter().map(|item| Row {
        biz: request.biz(item).to_owned(),
        key: request.key(item).to_owned(),
        count: item.count,
        force: item.force,
        detail: item.detail,
        extras: request.kept(item),
        are_numbers: ItemNames { biz: item.biz_is_number, key: item.key_is_number },
    });
    Ok((request.atomic, rows.collect()))
}

/// The one item with these members.
fn one(members: &str) -> Result<Row, Error> {
    parse(format!("{{\"items\":[{{{members}}}]}}")).map(|(_, rows)| rows[0].clone())
}

#[test]
fn what_few_items_bring() {
    let extras = |members: &str| one(&format!(r#""biz":"b","key":"k"{members}"#)).unwrap().extras;
    let text = |text: &str| Some(text.to_owned());
    let none = Extras::NONE;
    assert_eq!(extras(""), none.kept());
    for (members, expected) in [
        (
            r#","rate":"30/m","burst":16"#,
            Extras { rate: text("30/m"), burst: Some(Some(16)), ..none.clone() },
        ),
        (
            r#","burst":-1,"rate":"30\/\u006d""#,
            Extras { rate: text("30/m"), burst: Some(None), ..none.clone() },
        ),
        (r#","rate":30"#, Extras { rate: text("30"), ..none.clone() }),
        (r#","max":100"#, Extras { max: Some(Some(100)), ..none.clone() }),
        (r#","max":1.5"#, Extras { max: Some(None), ..none.clone() }),
        (r#","partial":true"#, Extras { partial: true, ..none.clone() }),
        (r#","partial":false,"settle":false"#, none.clone()),
        (r#","member":"\u006d""#, Extras { member: text("m"), ..none.clone() }),
        (r#","once":"\u0061b""#, Extras { once: text("ab"), ..none.clone() }),
        (
            r#","hold":"h","ttl":10000,"settle":true,"once":"""#,
            Extras {
                hold: text("h"),
                ttl_ms: Some(Some(10_000)),
                settle: true,
                once: text(""),
                ..none.clone()
            },
        ),
        (
            r#","hold":"h","ttl":18446744073709551616"#,
            Extras { hold: text("h"), ttl_ms: Some(None), ..none.clone() },
        ),
    ] {
        assert_eq!(extras(members), expected.kept(), "{members}");
    }
    for bad in [
        r#","max":"100""#,
        r#","partial":1"#,
        r#","partial":"true""#,
        r#","once":7"#,
        r#","hold":true"#,
        r#","ttl":"1s""#,
        r#","settle":null"#,
        r#","hold":"a","hold":"a""#,
        r#","settle":true,"settle":true"#,
    ] {
        let error = one(&format!(r#""biz":"b","key":"k"{bad}"#)).expect_err(bad);
        assert_eq!(error.status(), 400, "{bad}");
    }
}

#[test]
fn an_id_of_the_whole_request() {
    let once = |members: &str| {
        let mut request = Request::default();
        let body = format!(r#"{{{members},"items":[{{"biz":"b","key":"k"}}]}}"#);
        read(body.as_bytes(), Command::Update, BOUNDS, &mut Decoded::default(), &mut request)?;
        Ok(request.once().map(str::to_owned))
    };
    assert_eq!(once(r#""atomic":true"#), Ok(None));
    assert_eq!(once(r#""atomic":true,"once":"a\u0062""#), Ok(Some("ab".to_owned())));
    assert_eq!(once(r#""once":"","atomic":true"#), Ok(Some(String::new())));
    for members in [r#""once":"a""#, r#""once":"a","atomic":false"#] {
        let error: Error = once(members).unwrap_err();
        assert_eq!((error.status(), error.code().word()), (400, "bad-request"), "{members}");
        assert_eq!(error.position(), Some(TextPosition { line: 1, column: 9 }), "{members}");
        assert!(error.to_string().contains("expected atomic"), "{error}");
    }
    assert!(once(r#""atomic":true,"once":7"#).is_err());
}

#[test]
fn the_document_of_the_contract() {
    let body = r#"{"atomic": false, "items": [{"biz": "login", "key": "alice"},
        {"biz": "1002", "key": "18829340001", "count": 2}]}"#;
    let second = Row { count: Some(2), ..row("1002", "18829340001") };
    assert_eq!(parse(body), Ok((false, vec![row("login", "alice"), second])));
}

#[test]
fn what_is_taken() {
    let expected = Ok((true, vec![row("b", "k")]));
    for body in [
        r#"{"atomic":true,"items":[{"biz":"b","key":"k"}]}"#,
        r#"{"items":[{"key":"k","biz":"b"}],"atomic":true}"#,
        "\u{FEFF}\r\n{ \"items\" :\t[ {\"biz\" : \"b\" ,\n\"key\":\"k\" } ] , \
         \"atomic\" : true } \n",
        r#"{"it\u0065ms":[{"\u0062iz":"\u0062","k\u0065y":"\u006b"}],"\u0061tomic":true}"#,
        r#"{"atomic":true,"items":[{"biz":"b","key":"k","count":1,"force":false,"detail":false}]}"#,
        r#"{"atomic":true,"items":[{"detail":false,"force":false,"count":1,"key":"k","biz":"b"}]}"#,
    ] {
        assert_eq!(parse(body), expected, "{body}");
    }
    let flags = Row { force: true, detail: true, ..row("b", "k") };
    assert_eq!(one(r#""biz":"b","force":true,"key":"k","detail":true"#), Ok(flags));
}

#[test]
fn strings() {
    let key = |raw: &str| one(&format!(r#""biz":"b","key":"{raw}""#)).map(|row| row.key);
    for (raw, value) in [
        ("", ""),
        (
            "it's <&> é 漢 \u{10FFFF}\u{FFFE}\u{7F}\u{2028}",
            "it's <&> é 漢 \u{10FFFF}\u{FFFE}\u{7F}\u{2028}",
        ),
        (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{C}\n\r\t"),
        (r"\u0041\u00e9\u00E9\u0000\uffff", "Aéé\0\u{FFFF}"),
        (r"\ud83d\ude00\uD83D\uDE00", "😀😀"),
        (r"a\\", "a\\"),
        (r#"\\\""#, "\\\""),
    ] {
        assert_eq!(key(raw), Ok(value.to_owned()), "{raw:?}");
    }
    for raw in [
        "\u{1}",
        "\t",
        "\n",
        "\0",
        r"\x",
        r"\u",
        r"\u12",
        r"\u12g4",
        r"\U0041",
        r"\'",
        r"\ud800",
        r"\udc00",
        r"\ud800x",
        r"\ud800\u0041",
        r"\ud800\ud800",
    ] {
        let error = key(raw).expect_err(raw);
        assert_eq!((error.status(), error.code().word()), (400, "bad-json"), "{raw:?}");
    }
    // Each is decoded into its own buffer.
    let both = one(r#""key":"\u006b1","biz":"\u00621""#);
    assert_eq!(both, Ok(row("b1", "k1")));
    let two = r#"{"items":[{"biz":"\u0062","key":"\u006b"},{"biz":"c","key":"\u006c"}]}"#;
    assert_eq!(parse(two), Ok((false, vec![row("b", "k"), row("c", "l")])));
}

#[test]
fn numbers_as_biz_and_key() {
    for digits in [
        "0",
        "-0",
        "7",
        "1002",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "-9223372036854775809",
        "123456789012345678901234567890",
    ] {
        let number = Row { are_numbers: ItemNames { biz: true, key: true }, ..row(digits, digits) };
        assert_eq!(one(&format!(r#""biz":{digits},"key" : {digits} "#)), Ok(number), "{digits}");
        let text = Row { are_numbers: ItemNames { biz: false, key: true }, ..row(digits, digits) };
        assert_eq!(one(&format!(r#""biz":"{digits}","key":{digits}"#)), Ok(text), "{digits}");
    }
    for number in ["1.0", "1.5", "-0.0", "1e3", "1E-3", "1e999", "18446744073709551616.5"] {
        for members in
            [format!(r#""biz":"b","key":{number}"#), format!(r#""key":1,"biz":{number}"#)]
        {
            let error = one(&members).expect_err(number);
            assert_eq!((error.status(), error.code().word()), (400, "bad-request"), "{members}");
            assert!(error.to_string().ends_with(&format!(", found \"{number}\"")), "{error}");
        }
    }
}

#[test]
fn counts() {
    let count = |number: &str| one(&format!(r#""biz":"b","count":{number},"key":"k""#));
    for (number, expected) in [
        ("0", Some(0)),
        ("-0", Some(0)),
        ("-5", Some(-5)),
        ("2147483647", Some(i32::MAX)),
        ("-2147483648", Some(i32::MIN)),
        ("2147483648", None),
        ("-2147483649", None),
        ("9007199254740993", None),
        ("18446744073709551616", None),
        ("1.0", None),
        ("1.5", None),
        ("1e0", None),
        ("-1E+2", None),
        ("1e999", None),
        ("99999999999999999999999999999999999999999999999999", None),
    ] {
        assert_eq!(count(number), Ok(Row { count: expected, ..row("b", "k") }), "{number}");
    }
}

#[test]
fn what_is_not_taken_and_where() {
    let item = r#"{"biz":"b","key":"k"}"#;
    let with = |members: &str| format!(r#"{{"items":[{{{members}}}]}}"#);
    for (body, code, line, column) in [
        // Not JSON.
        ("".into(), "bad-json", 1, 1),
        (" \n ".into(), "bad-json", 2, 2),
        ("hello".into(), "bad-json", 1, 1),
        ("<request/>".into(), "bad-json", 1, 1),
        ("{".into(), "bad-json", 1, 2),
        (r#"{"items""#.into(), "bad-json", 1, 9),
        (r#"{"items":"#.into(), "bad-json", 1, 10),
        (r#"{"items":["#.into(), "bad-json", 1, 11),
        (format!(r#"{{"items":[{item}"#), "bad-json", 1, 32),
        (format!(r#"{{"items":[{item},"#), "bad-json", 1, 33),
        (format!(r#"{{"items":[{item}]"#), "bad-json", 1, 33),
        (format!(r#"{{"items":[{item},]}}"#), "bad-json", 1, 33),
        (format!(r#"{{"items":[,{item}]}}"#), "bad-json", 1, 11),
        ("{\"items\":[,[]]}".into(), "bad-json", 1, 11),
        (format!(r#"{{"items":[{item} {item}]}}"#), "bad-json", 1, 33),
        (format!(r#"{{"items":[{item}],}}"#), "bad-json", 1, 34),
        (format!(r#"{{"items":[{item}}}}}"#), "bad-json", 1, 32),
        (format!(r#"{{"items":[{item}]]"#), "bad-json", 1, 33),
        (format!(r#"{{,"items":[{item}]}}"#), "bad-json", 1, 2),
        (format!(r#"{{"items" [{item}]}}"#), "bad-json", 1, 10),
        (format!(r#"{{items:[{item}]}}"#), "bad-json", 1, 2),
        (format!(r#"{{'items':[{item}]}}"#), "bad-json", 1, 2),
        (format!(r#"{{"items":[{item}]}}x"#), "bad-json", 1, 34),
        (format!("{{\"items\":[{item}]}}\n{{}}"), "bad-json", 2, 1),
        (format!(r#"{{"items":[{item}]}}\u{0}"#, 0), "bad-json", 1, 34),
        (format!("\u{FEFF}\u{FEFF}{{\"items\":[{item}]}}"), "bad-json", 1, 1),
        (format!("// no comments\n{{\"items\":[{item}]}}"), "bad-json", 1, 1),
        (with(r#""biz":b,"key":"k""#), "bad-json", 1, 18),
        (with(r#""biz":,"key":"k""#), "bad-json", 1, 18),
        (with(r#""biz":"b""key":"k""#), "bad-json", 1, 21),
        (with(r#""biz":"b",,"key":"k""#), "bad-json", 1, 22),
        (with(r#""biz":"b","key":"k"#), "bad-json", 1, 33),
        (with("\"biz\":\"é\",\n\"key\":\"\u{1}\""), "bad-json", 2, 8),
        (with("\"biz\":\"b\",\r\n\"key\":\"漢\\x\""), "bad-json", 2, 10),
        (with("\"biz\":\"b\",\r\"key\":\"\n\""), "bad-json", 2, 8),
        (with(r#""biz":"b","key":"k","force":tru"#), "bad-json", 1, 43),
        (with(r#""biz":"b","key":"k","force":nul"#), "bad-json", 1, 43),
        (with(r#""biz":"b","key":"k","force":nope"#), "bad-json", 1, 41),
        (with(r#""biz":"b","key":01"#), "bad-json", 1, 29),
        (with(r#""biz":"b","key":+1"#), "bad-json", 1, 28),
        (with(r#""biz":"b","key":-"#), "bad-json", 1, 29),
        (with(r#""biz":"b","key":.5"#), "bad-json", 1, 28),
        (with(r#""biz":"b","key":12-3"#), "bad-json", 1, 30),
        (with(r#""biz":"b","key":"k","count":1."#), "bad-json", 1, 42),
        (with(r#""biz":"b","key":"k","count":1e"#), "bad-json", 1, 42),
        (with(r#""biz":"b","key":"k","count":0x1"#), "bad-json", 1, 41),
        (with(r#""biz":"b","key":"k","count":NaN"#), "bad-json", 1, 40),
        // Null and repeated members.
        ("null".into(), "bad-json", 1, 1),
        (r#"{"items":null}"#.into(), "bad-json", 1, 10),
        (r#"{"items":[ null]}"#.into(), "bad-json", 1, 12),
        (format!(r#"{{"atomic":null,"items":[{item}]}}"#), "bad-json", 1, 11),
        (with(r#""biz":null,"key":"k""#), "bad-json", 1, 18),
        (with(r#""biz":"b","key":null"#), "bad-json", 1, 28),
        (with(r#""biz":"b","key":"k","count":null"#), "bad-json", 1, 40),
        (with(r#""biz":"b","key":"k","force": null"#), "bad-json", 1, 41),
        (with(r#""biz":"b","key":"k","detail":null"#), "bad-json", 1, 41),
        (format!(r#"{{"items":[{item}],"items":[{item}]}}"#), "bad-json", 1, 34),
        (format!(r#"{{"atomic":true,"atomic":true,"items":[{item}]}}"#), "bad-json", 1, 16),
        (with("\"biz\":\"b\",\n\"biz\":\"b\",\"key\":\"k\""), "bad-json", 2, 1),
        (with(r#""biz":"b","\u0062iz":"b","key":"k""#), "bad-json", 1, 22),
        (with(r#""biz":"b\"","key":"k" , "key":"k""#), "bad-json", 1, 36),
        (with(r#""biz":"b","key":7,"count":1.5,"count":1"#), "bad-json", 1, 42),
        (with(r#""force":true,"force":false"#), "bad-json", 1, 25),
        (with(r#""detail":false,"detail":true"#), "bad-json", 1, 27),
        // Not a request.
        ("[]".into(), "bad-request", 1, 1),
        (" 5".into(), "bad-request", 1, 2),
        ("\"request\"".into(), "bad-request", 1, 1),
        ("true".into(), "bad-request", 1, 1),
        (" {}".into(), "bad-request", 1, 2),
        (r#"{"items":[]}"#.into(), "bad-request", 1, 1),
        ("{\"atomic\":true}".into(), "bad-request", 1, 1),
        (r#"{"items":{}}"#.into(), "bad-request", 1, 10),
        (r#"{"items":""}"#.into(), "bad-request", 1, 10),
        (format!(r#"{{"items": {item}}}"#), "bad-request", 1, 11),
        (format!(r#"{{"items":[{item}, 5]}}"#), "bad-request", 1, 34),
        (format!(r#"{{"items":[[{item}]]}}"#), "bad-request", 1, 11),
        (r#"{"items":["x"]}"#.into(), "bad-request", 1, 11),
        (format!(r#"{{"Items":[{item}]}}"#), "bad-request", 1, 2),
        (format!(r#"{{"items":[{item}],"x":1}}"#), "bad-request", 1, 34),
        (format!(r#"{{"items":[{item}],"":1}}"#), "bad-request", 1, 34),
        (format!(r#"{{"atomic":1,"items":[{item}]}}"#), "bad-request", 1, 11),
        (format!(r#"{{"atomic":"true","items":[{item}]}}"#), "bad-request", 1, 11),
        (with(""), "bad-request", 1, 11),
        (with(r#""biz":"b""#), "bad-request", 1, 11),
        (with(r#""key":"k""#), "bad-request", 1, 11),
        (format!("{{\"items\":[{item},\n {{ \"key\":\"k\" }}]}}"), "bad-request", 2, 2),
        (with(r#""biz":"b","key":"k","kay":"k""#), "bad-request", 1, 32),
        (with(r#""biz":"b\n","key":"k","k\u0061y":"k""#), "bad-request", 1, 34),
        (with(r#""biz":true,"key":"k""#), "bad-request", 1, 18),
        (with(r#""biz":"b","key":["k"]"#), "bad-request", 1, 28),
        (with(r#""biz":"b","key":{"k":1}"#), "bad-request", 1, 28),
        (with(r#""biz":"b","key":false"#), "bad-request", 1, 28),
        (with(r#""biz":"b","key":"k","count":"1""#), "bad-request", 1, 40),
        (with(r#""biz":"b","key":"k","count":true"#), "bad-request", 1, 40),
        (with(r#""biz":"b","key":"k","count":[1]"#), "bad-request", 1, 40),
        (with(r#""biz":"b","key":"k","force":1"#), "bad-request", 1, 40),
        (with(r#""biz":"b","key":"k","force":"true""#), "bad-request", 1, 40),
        (with(r#""biz":"b","key":"k","detail":{}"#), "bad-request", 1, 41),
    ] {
        let error = parse(&body).expect_err(&body);
        let position = Some(TextPosition { line, column });
        let found = (error.status(), error.code().word(), error.position());
        assert_eq!(found, (400, code, position), "{body}\n{error}");
        assert!(!error.closes());
    }
    let error = parse(b"{\"items\":\n[{\"biz\":\"\xff\"}]}").unwrap_err();
    assert_eq!(
        (error.code().word(), error.position()),
        ("bad-json", Some(TextPosition { line: 2, column: 10 }))
    );
}

/// The text is frs's own: the parser only says where it stopped.
#[test]
fn the_words_of_faults() {
    for (body, words) in [
        ("{", "the document ends too early"),
        (r#"{"items":[{"biz":"b"#, "the document ends too early"),
        (r#"{"items" 1}"#, "expected : after the name of a member, found \"1\""),
        (r#"{"items":[] "x":1}"#, "expected , or } in an object, found \"\"\""),
        (r#"{"items":[{"biz":"b","key":1}{}]}"#, "expected , or ] in an array, found \"{\""),
        (r#"{"atomic":trux}"#, "expected true, false or null, found \"x\""),
        (r#"{"items":é}"#, "expected a value, found \"é\""),
        ("{items:1}", "expected the name of a member in double quotes, found \"i\""),
        (r#"{"atomic":true,}"#, "a comma behind the last one, found \"}\""),
        (r#"{"items":[]} é"#, "expected nothing behind the document, found \"é\""),
        (r#"{"items":[{"key":1,"biz":00}]}"#, "expected a number as JSON writes them, found \"0\""),
        (
            r#"{"items":[{"key":"\x"}]}"#,
            "expected \" \\ / b f n r t or u and four hexadecimal digits after \\, found \"x\"",
        ),
        ("{\"\u{1}\":1}", "a control character in a string: expected an escape, found \"\u{1}\""),
        (r#"{"items":[{"biz":"a","key":1],}"#, "expected , or } in an object, found \"]\""),
        (r#"{"items":[],]"#, "expected the name of a member in double quotes, found \"]\""),
        (r#"{"items":[{},}"#, "expected both of the members biz and key"),
        (r#"{"items":[{"key":-"#, "expected a number as JSON writes them, found \"-\""),
        (r#"{"items":[{"key":1.5e"#, "expected a number as JSON writes them, found \"e\""),
        (
            r#"{"\u":1,"atomic":true}"#,
            "expected \" \\ / b f n r t or u and four hexadecimal digits after \\, found \",\"",
        ),
        (
            "{\"atomic\":\"\u{1}\"}",
            "a control character in a string: expected an escape, found \"\"\"",
        ),
        (r#"{"items":null}"#, "null is not taken: leave the member out"),
        (r#"{"atomic":true,"atomic":true}"#, "a member occurs more than once, found \"atomic\""),
        (r#"{"Items":1}"#, "unknown member: expected atomic, once or items, found \"Items\""),
        (
            r#"{"items":[{"bizz":1}]}"#,
            "unknown member: expected biz, key, count, force, detail, member, rate, burst, max, \
             partial, once, hold, ttl or settle, found \"bizz\"",
        ),
        (r#"{"items":[{"biz":true}]}"#, "expected a string or an integer, found \"true\""),
        (r#"{"items":[{"biz":[1]}]}"#, "expected a string or an integer, found \"[\""),
        (r#"{"items":[{"count":"1"}]}"#, "expected an integer, found \"1\""),
        (r#"{"items":[{"burst":"1"}]}"#, "expected an integer, found \"1\""),
        (r#"{"items":[{"rate":true}]}"#, "expected a string or an integer, found \"true\""),
        (r#"{"items":[{"member":0}]}"#, "expected a string, found \"0\""),
        (r#"{"atomic":"yes"}"#, "expected true or false, found \"yes\""),
    ] {
        assert_eq!(parse(body).expect_err(body).to_string(), words, "{body}");
    }
    for raw in [r"\ud800", r"\udc00", r"\ud800\u0041"] {
        let error = one(&format!(r#""biz":"{raw}""#)).expect_err(raw);
        let words = "half of a surrogate pair: expected \\u and four digits for each half";
        assert_eq!(error.to_string(), words, "{raw}");
    }
}

#[test]
fn nesting_is_not_followed() {
    for open in ["[", "{\"items\":", "{\"items\":[{\"biz\":", "[[", "{\"items\":[["] {
        for nested in ["[", "{\"a\":"] {
            let body = open.to_owned() + &nested.repeat(200_000);
            assert_eq!(
                parse(&body).expect_err(open).code().word(),
                "bad-request",
                "{open} {nested}"
            );
        }
    }
}

#[test]
fn other_encodings() {
    for body in [&b"\xFE\xFF\0{"[..], b"\xFF\xFE{\0"] {
        let error = parse(body).unwrap_err();
        assert_eq!((error.status(), error.code().word()), (415, "bad-content-type"), "{body:?}");
    }
}

#[test]
fn bounds() {
    let items = |items: usize| vec![r#"{"biz":"b","key":"k"}"#; items].join(",");
    for (count, atomic, fits) in
        [(4, false, true), (5, false, false), (2, true, true), (3, true, false), (5, true, false)]
    {
        for body in [
            format!(r#"{{"atomic":{atomic},"items":[{}]}}"#, items(count)),
            format!(r#"{{"items":[{}],"atomic":{atomic}}}"#, items(count)),
        ] {
            let read = parse(&body);
            assert_eq!(read.is_ok(), fits, "{body}");
            if let Err(error) = read {
                assert_eq!((error.status(), error.code().word()), (413, "too-many-items"));
                assert!(error.closes());
            }
        }
    }
    // What follows the bound is not read.
    let body = format!(r#"{{"items":[{},]}}"#, items(4));
    assert_eq!(parse(body).unwrap_err().code().word(), "bad-json");
    let body = format!(r#"{{"items":[{},{{what}}"#, items(4));
    assert_eq!(parse(body).unwrap_err().code().word(), "too-many-items");
}

fn written(request: &Request, answers: &Answers) -> String {
    let mut out = Vec::new();
    write::<Json>(&mut out, &mut Line::default(), request, answers);
    String::from_utf8(out).unwrap()
}

fn answer(result: Result<frs_engine::Verdict, ItemError>) -> Answer {
    Answer { biz: Some(0), result, details: 0..0, action: 0 }
}

#[test]
fn echoes() {
    let mut request = Request::default();
    let key = "\0a\u{1F}\t\n\r&\"'\\<>/é\u{7F}\u{2028}\u{FFFE}\u{FFFF}\u{FFFD}\u{EFFF}";
    request.push("<b>", key, ItemOptions::ONE);
    request.push("1001", "007", ItemOptions::ONE);
    request.push("1001", "18446744073709551615", ItemOptions::ONE);
    request.note_numbers(ItemNames { biz: true, key: true });
    let answers = Answers { items: vec![answer(Err(ItemError::BadKey)); 3], ..Answers::default() };
    assert_eq!(
        written(&request, &answers),
        "{\"items\":[{\"biz\":\"<b>\",\"key\":\"\u{FFFD}a\u{FFFD}\\t\\n\\r&\\\"'\\\\<>/é\u{7F}\
         \u{2028}\u{FFFD}\u{FFFD}\u{FFFD}\u{EFFF}\",\"error\":\"bad-key\"},\
         {\"biz\":\"1001\",\"key\":\"007\",\"error\":\"bad-key\"},\
         {\"biz\":1001,\"key\":18446744073709551615,\"error\":\"bad-key\"}]}\n"
    );
    // XML has text only.
    let mut out = Vec::new();
    write::<crate::protocol::xml::Xml>(&mut out, &mut Line::default(), &request, &answers);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("<item biz=\"1001\" key=\"18446744073709551615\" error"), "{text}");
}

#[test]
fn error_documents() {
    let text = |error: &Error| {
        let mut out = Vec::new();
        write_error::<Json>(&mut out, &mut Line::default(), error, None);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        text(&parse("{\n\"items\":1,\"\\\"x\":1}").unwrap_err()),
        "{\"error\":{\"code\":\"bad-request\",\"line\":2,\"column\":9,\"message\":\"expected an \
         array of items, found \\\"1\\\"\"}}\n"
    );
    assert_eq!(
        text(&Error::Overloaded),
        "{\"error\":{\"code\":\"overloaded\",\"message\":\"all connections are in use\"}}\n"
    );
}
