//! The parameters of a GET.

use super::*;
use frs_engine::Command;
use frs_engine::testing::kept::Kept;

#[derive(Debug, PartialEq)]
struct Row {
    biz: String,
    key: String,
    options: ItemOptions,
    extras: Kept,
    deny: Option<u16>,
}

fn read(query: &str) -> Result<Row, Error> {
    let mut request = Request::default();
    request.begin(Command::Query);
    let deny = parse(query, &mut Decoded::default(), &mut request)?;
    let item = request.items()[0];
    let (biz, key) = (request.biz(&item).to_owned(), request.key(&item).to_owned());
    let extras = request.kept(&item);
    Ok(Row { biz, key, options: request.options(&item), extras, deny })
}

fn row(biz: &str, key: &str) -> Row {
    let (biz, key) = (biz.into(), key.into());
    Row { biz, key, options: ItemOptions::ONE, extras: Extras::NONE.kept(), deny: None }
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
fn what_few_items_bring() {
    let extras = |query: &str| read(&format!("biz=b&key=k{query}")).unwrap().extras;
    let text = |text: &str| Some(text.to_owned());
    let none = Extras::NONE;
    assert_eq!(extras(""), none.kept());
    for (query, expected) in [
        (
            "&rate=30%2Fm&burst=16",
            Extras { rate: text("30/m"), burst: Some(Some(16)), ..none.clone() },
        ),
        ("&rate=5/1m+9/day", Extras { rate: text("5/1m 9/day"), ..none.clone() }),
        ("&rate=", Extras { rate: text(""), ..none.clone() }),
        ("&burst=+1", Extras { burst: Some(None), ..none.clone() }),
        ("&max=100", Extras { max: Some(Some(100)), ..none.clone() }),
        ("&max=-1", Extras { max: Some(None), ..none.clone() }),
        ("&partial=true&settle=false", Extras { partial: true, ..none.clone() }),
        ("&member=m", Extras { member: text("m"), ..none.clone() }),
        ("&once=a%26b", Extras { once: text("a&b"), ..none.clone() }),
        ("&once=&hold=", Extras { once: text(""), hold: text(""), ..none.clone() }),
        (
            "&settle=true&ttl=10000&hold=h",
            Extras { hold: text("h"), ttl_ms: Some(Some(10_000)), settle: true, ..none.clone() },
        ),
        ("&ttl=1s", Extras { ttl_ms: Some(None), ..none.clone() }),
    ] {
        assert_eq!(extras(query), expected.kept(), "{query}");
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
        "biz=b&key=k&once=1&once=1",
        "biz=b&key=k&hold=%ff",
        "biz=b&key=k&partial=1",
        "biz=b&key=k&settle=",
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
