//! XML in requests and in answers.

use super::*;
use crate::protocol::document_format::{write, write_error};
use crate::protocol::{Bounds, Decoded, Error, Line, TextPosition};
use frs_engine::testing::kept::Kept;
use frs_engine::{
    Answer, Answers, Command, Extras, Figures, HistorySpan, ItemError, ItemOptions, LimitFigures,
    List, Request, Verdict,
};

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
}

fn row(biz: &str, key: &str) -> Row {
    Row {
        biz: biz.into(),
        key: key.into(),
        count: Some(1),
        force: false,
        detail: false,
        extras: Extras::NONE.kept(),
    }
}

/// Parses the document. With the other quotes, which take another path, the result must be the
/// same.
fn parse(body: &[u8]) -> Result<(bool, Vec<Row>), Error> {
    let parsed = parse_once(body);
    if !body.contains(&b'"') {
        let quote = |&byte: &u8| if byte == b'\'' { b'"' } else { byte };
        let other = parse_once(&body.iter().map(quote).collect::<Vec<_>>());
        let brief = |parsed: &Result<(bool, Vec<Row>), Error>| {
            parsed.clone().map_err(|error| (error.code().word(), error.position()))
        };
        assert_eq!(brief(&other), brief(&parsed));
    }
    parsed
}

fn parse_once(body: &[u8]) -> Result<(bool, Vec<Row>), Error> {
    let mut request = Request::default();
    let mut decoded = Decoded::default();
    read(body, Command::Update, BOUNDS, &mut decoded, &mut request)?;
    assert_eq!(request.command, Command::Update);
    let as_it_is = |name: &str| !name.contains(|c| c < ' ' || "&<>\"\u{FFFE}\u{FFFF}".contains(c));
    let mut names = request.items().iter().flat_map(|item| [request.biz(item), request.key(item)]);
    assert!(!request.is_plain || names.all(as_it_is));
    let rows = request.items().iter().map(|item| Row {
        biz: request.biz(item).to_owned(),
        key: request.key(item).to_owned(),
        count: item.count,
        force: item.force,
        detail: item.detail,
        extras: request.kept(item),
    });
    Ok((request.atomic, rows.collect()))
}

fn one(body: &str) -> Result<Row, Error> {
    parse(body.as_bytes()).map(|(_, rows)| rows[0].clone())
}

#[test]
fn the_document_of_the_contract() {
    let body = r#"<request atomic="false">
  <item biz="login" key="alice"/>
  <item biz="1002" key="18829340001" count="2" force="false" detail="true"/>
</request>
"#;
    let second = Row { count: Some(2), detail: true, ..row("1002", "18829340001") };
    assert_eq!(parse(body.as_bytes()), Ok((false, vec![row("login", "alice"), second])));
}

#[test]
fn what_is_taken() {
    let expected = Ok(row("b", "k"));
    for body in [
        "<request><item biz='b' key=\"k\"/></request>",
        "<request><item key='k' biz='b'></item></request>",
        "<request><item key='k' biz='b' >\n<!-- > --></item ></request\t>",
        "\u{FEFF}<request><item biz='b' key='k'/></request>",
        "<?xml version=\"1.0\"?><request><item biz='b' key='k'/></request>",
        "\u{FEFF}<?xml version='1.0' encoding='utf-8' standalone='yes' ?>\n\
         <request><item biz='b' key='k'/></request>\n",
        "<!-- a - b --><?pi?><request><?p x?y>?><!----><item biz='b' key='k'/></request> <?p ?>",
        " <request\n>\r\n<item\tbiz\n=\r'b' key = 'k' / ></request>",
        "<request ><item biz='&#98;' key='&#x6B;' force='f&#97;lse' count='&#49;'/></request>",
        "<request atomic='false' ><item biz='b' key='k' count='01'/></request>",
    ] {
        // A slash separated from its bracket is rejected.
        let body = body.replace("/ >", "/>");
        assert_eq!(one(&body), expected, "{body}");
    }
    assert!(parse(b"<request atomic='true'><item biz='b' key='k'/></request>").unwrap().0);
}

#[test]
fn what_few_items_bring() {
    let read =
        |attributes: &str| one(&format!("<request><item biz='b' key='k' {attributes}/></request>"));
    let text = |text: &str| Some(text.to_owned());
    let none = Extras::NONE;
    assert_eq!(read("").unwrap().extras, none.kept());
    for (attributes, expected) in [
        (
            "rate='30/m' burst='16'",
            Extras { rate: text("30/m"), burst: Some(Some(16)), ..none.clone() },
        ),
        (
            "burst='x' rate='&#51;0/m'",
            Extras { rate: text("30/m"), burst: Some(None), ..none.clone() },
        ),
        ("rate='5/1m 100/month'", Extras { rate: text("5/1m 100/month"), ..none.clone() }),
        ("rate=''", Extras { rate: text(""), ..none.clone() }),
        ("max='100'", Extras { max: Some(Some(100)), ..none.clone() }),
        ("max='-1'", Extras { max: Some(None), ..none.clone() }),
        ("partial='true'", Extras { partial: true, ..none.clone() }),
        ("partial='false' settle='false'", none.clone()),
        ("member='&#109;'", Extras { member: text("m"), ..none.clone() }),
        ("once='a&amp;b'", Extras { once: text("a&b"), ..none.clone() }),
        (
            "hold='h' ttl='10000' settle='tru&#101;' once=''",
            Extras {
                hold: text("h"),
                ttl_ms: Some(Some(10_000)),
                settle: true,
                once: text(""),
                ..none.clone()
            },
        ),
        ("hold='h' ttl='1s'", Extras { hold: text("h"), ttl_ms: Some(None), ..none.clone() }),
    ] {
        assert_eq!(read(attributes).unwrap().extras, expected.kept(), "{attributes}");
    }
    for bad in [
        "partial='1'",
        "partial=''",
        "settle='TRUE'",
        "once='a' once='a'",
        "hold='a' hold='b'",
        "max='1' max='1'",
        "ttl='1' ttl='1'",
        "partial='true' partial='true'",
        "settle='true' settle='true'",
    ] {
        assert_eq!(read(bad).expect_err(bad).status(), 400, "{bad}");
    }
}

#[test]
fn an_id_of_the_whole_request() {
    let once = |attributes: &str| {
        let mut request = Request::default();
        let body = format!("<request {attributes}><item biz='b' key='k'/></request>");
        read(body.as_bytes(), Command::Update, BOUNDS, &mut Decoded::default(), &mut request)?;
        Ok((request.once().map(str::to_owned), request.key(&request.items()[0]).to_owned()))
    };
    let told = |id: Option<&str>| Ok((id.map(str::to_owned), "k".to_owned()));
    assert_eq!(once("atomic='true'"), told(None));
    assert_eq!(once("atomic='true' once='a&#98;'"), told(Some("ab")));
    assert_eq!(once("once='' atomic='true'"), told(Some("")));
    for attributes in ["once='a'", "once='a' atomic='false'"] {
        let error: Error = once(attributes).unwrap_err();
        assert_eq!((error.status(), error.code().word()), (400, "bad-request"), "{attributes}");
        assert_eq!(error.position(), Some(TextPosition { line: 1, column: 10 }), "{attributes}");
        assert!(error.to_string().contains("expected atomic"), "{error}");
    }
    assert!(once("atomic='true' once='a' once='a'").is_err());
}

#[test]
fn values() {
    let key = |raw: &str| {
        one(&format!("<request><item biz='b' key=\"{raw}\"/></request>")).map(|row| row.key)
    };
    for (raw, value) in [
        ("", ""),
        ("it's > é 漢 \u{10FFFF}\u{FFFD}\u{7F}", "it's > é 漢 \u{10FFFF}\u{FFFD}\u{7F}"),
        ("&lt;&gt;&amp;&apos;&quot;", "<>&'\""),
        ("&#x41;&#65;&#x00041;&#x10FFFF;", "AAA\u{10FFFF}"),
        ("a\tb\nc\rd\r\ne", "a b c d e"),
        ("a\n\rb", "a  b"),
        ("&#9;&#10;&#13;&#xA;", "\t\n\r\n"),
        ("&amp;lt;", "&lt;"),
        ("\u{EFFF}\u{FEFF}", "\u{EFFF}\u{FEFF}"),
    ] {
        assert_eq!(key(raw), Ok(value.to_owned()), "{raw:?}");
    }
    for raw in [
        "&",
        "&;",
        "&amp",
        "a & b",
        "&nbsp;",
        "&Lt;",
        "&#;",
        "&#x;",
        "&#X41;",
        "&#0;",
        "&#x0;",
        "&#8;",
        "&#xFFFE;",
        "&#xFFFF;",
        "&#xD800;",
        "&#x110000;",
        "&#99999999999;",
        "&#+65;",
        "&#6_5;",
        "& lt;",
        "<",
        "a<b",
        "\u{1}",
        "\0",
        "\u{FFFE}",
        "\u{FFFF}",
        "\u{1F}é",
    ] {
        let error = key(raw).expect_err(raw);
        assert_eq!((error.status(), error.code().word()), (400, "bad-xml"), "{raw:?}");
    }
    let count = |raw: &str| {
        one(&format!("<request><item biz='b' key='k' count='{raw}'/></request>")).unwrap().count
    };
    assert_eq!(count("-5"), Some(-5));
    assert_eq!(count("2147483648"), None);
    assert_eq!(count(""), None);
    assert_eq!(count("1 "), None);
}

#[test]
fn what_is_not_taken_and_where() {
    for (body, code, line, column) in [
        // Not well-formed.
        ("", "bad-xml", 1, 1),
        (" \n ", "bad-xml", 2, 2),
        ("hello", "bad-xml", 1, 1),
        ("<request>", "bad-xml", 1, 10),
        ("<request", "bad-xml", 1, 9),
        ("<request><item biz='b' key='k'/>", "bad-xml", 1, 33),
        ("<request><item biz='b' key='k'>", "bad-xml", 1, 32),
        ("<request><item biz='b' key='k'></request>", "bad-xml", 1, 34),
        ("<request>\n<item biz='b' key='k'/></item>", "bad-xml", 2, 26),
        ("<request><item biz='b' key='k'/></request", "bad-xml", 1, 42),
        ("<request><item biz='b' key='k'/></request x>", "bad-xml", 1, 43),
        ("<request><item biz='b' key='k'/></ request>", "bad-xml", 1, 36),
        ("<request><item biz='b' key='k'/></request>x", "bad-xml", 1, 43),
        ("<request><item biz='b' key='k'/></request><request/>", "bad-xml", 1, 43),
        ("<request>\n  <item biz='b' biz='b' key='k'/></request>", "bad-xml", 2, 17),
        ("<request><item key='k' biz='b' count='1' count='1'/></request>", "bad-xml", 1, 42),
        ("<request><item key='k' biz='b' rate='1/s' rate='2/s'/></request>", "bad-xml", 1, 43),
        ("<request><item key='k' biz='b' burst='1' burst='1'/></request>", "bad-xml", 1, 42),
        ("<request atomic='true' atomic='true'><item/></request>", "bad-xml", 1, 24),
        ("<request><item biz='b'key='k'/></request>", "bad-xml", 1, 23),
        ("<request><item biz=b key='k'/></request>", "bad-xml", 1, 20),
        ("<request><item biz key='k'/></request>", "bad-xml", 1, 20),
        ("<request><item biz='b' key='k/></request>", "bad-xml", 1, 42),
        ("<request><item biz='b' key='k'/ ></request>", "bad-xml", 1, 31),
        ("<request><item biz='b' =''/></request>", "bad-xml", 1, 24),
        ("<request><item biz='b' 1='' key='k'/></request>", "bad-xml", 1, 24),
        ("<request><item biz='é' key='a&b;'/></request>", "bad-xml", 1, 30),
        ("<request><item biz='b' key='a<'/></request>", "bad-xml", 1, 30),
        ("<request><item biz='b' key='a\u{1}'/></request>", "bad-xml", 1, 30),
        ("<request>< item biz='b' key='k'/></request>", "bad-xml", 1, 11),
        ("<request><1/></request>", "bad-xml", 1, 11),
        ("<><item/></>", "bad-xml", 1, 2),
        ("</request>", "bad-xml", 1, 3),
        ("<request><!-- a -- b --></request>", "bad-xml", 1, 17),
        ("<request><!-- a ---></request>", "bad-xml", 1, 17),
        ("<request><!-- a ></request>", "bad-xml", 1, 10),
        ("<request><!-- \u{2} --></request>", "bad-xml", 1, 15),
        ("<request><!-></request>", "bad-xml", 1, 10),
        ("<request><? x?></request>", "bad-xml", 1, 12),
        ("<request><?x </request>", "bad-xml", 1, 10),
        ("<request><?x \u{FFFE}?></request>", "bad-xml", 1, 14),
        (" <?xml version='1.0'?><request/>", "bad-xml", 1, 2),
        ("<request><?XmL version='1.0'?></request>", "bad-xml", 1, 10),
        ("<?xml?><request/>", "bad-xml", 1, 1),
        ("<?xml ?><request/>", "bad-xml", 1, 6),
        ("<?xml version='2.0'?><request/>", "bad-xml", 1, 16),
        ("<?xml version='1.'?><request/>", "bad-xml", 1, 16),
        ("<?xml encoding='UTF-8'?><request/>", "bad-xml", 1, 7),
        ("<?xml version='1.0' standalone='yes' encoding='UTF-8'?><request/>", "bad-xml", 1, 38),
        ("<?xml version='1.0' standalone='maybe'?><request/>", "bad-xml", 1, 33),
        ("<?xml version='1.0' version='1.0'?><request/>", "bad-xml", 1, 21),
        ("<?xml version='1.0'", "bad-xml", 1, 20),
        ("<?xml version='1.0'><request/>", "bad-xml", 1, 21),
        ("\u{FEFF}\u{FEFF}<request/>", "bad-xml", 1, 1),
        ("<request>&#32;<item biz='b' key='k'/></request>", "bad-xml", 1, 10),
        ("<request>]]><item biz='b' key='k'/></request>", "bad-xml", 1, 10),
        // XML that frs rejects.
        ("<!DOCTYPE request><request/>", "bad-xml", 1, 1),
        ("<?xml version='1.0'?>\n<!DOCTYPE r [<!ENTITY a 'b'>]><request/>", "bad-xml", 2, 1),
        ("<request><![CDATA[ ]]></request>", "bad-xml", 1, 10),
        // Not a request.
        ("<requests/>", "bad-request", 1, 2),
        ("<Request/>", "bad-request", 1, 2),
        ("<r:request/>", "bad-request", 1, 2),
        ("<request/>", "bad-request", 1, 1),
        ("<!-- --> <request> </request>", "bad-request", 1, 10),
        ("<request xmlns='urn:x'/>", "bad-request", 1, 10),
        ("<request atomic='1'/>", "bad-request", 1, 18),
        ("<request atomic='TRUE'/>", "bad-request", 1, 18),
        ("<request atomic=''/>", "bad-request", 1, 18),
        ("<request><items/></request>", "bad-request", 1, 11),
        ("<request><request/></request>", "bad-request", 1, 11),
        ("<request><item biz='b' key='k'><item/></item></request>", "bad-request", 1, 33),
        ("<request><item biz='b' key='k'>x</item></request>", "bad-request", 1, 32),
        ("<request>\n x <item biz='b' key='k'/></request>", "bad-request", 2, 2),
        ("<request>\u{A0}<item biz='b' key='k'/></request>", "bad-request", 1, 10),
        ("<request>\n<item biz='b'/></request>", "bad-request", 2, 1),
        ("<request><item key='k'/></request>", "bad-request", 1, 10),
        ("<request><item/></request>", "bad-request", 1, 10),
        ("<request><item biz='b' key='k' x='y'/></request>", "bad-request", 1, 32),
        ("<request><item biz='b' key='k' xmlns='y'/></request>", "bad-request", 1, 32),
        ("<request><item BIZ='b' key='k'/></request>", "bad-request", 1, 16),
        ("<request><item biz='b' key='k' force='yes'/></request>", "bad-request", 1, 39),
        ("<request><item biz='b' key='k' detail=' true'/></request>", "bad-request", 1, 40),
    ] {
        let error = parse(body.as_bytes()).expect_err(body);
        let position = Some(TextPosition { line, column });
        assert_eq!(
            (error.status(), error.code().word(), error.position()),
            (400, code, position),
            "{body}"
        );
        assert!(!error.closes());
    }
    let error = parse(b"<request>\n<item biz='\xff'/></request>").unwrap_err();
    assert_eq!(
        (error.code().word(), error.position()),
        ("bad-xml", Some(TextPosition { line: 2, column: 12 }))
    );
}

#[test]
fn other_encodings() {
    for body in [
        &b"<?xml version='1.0' encoding='ISO-8859-1'?><request/>"[..],
        b"<?xml version='1.0' encoding='latin1'?><request><item biz='b' key='\xe9'/></request>",
        b"<?xml version='1.0' encoding='UTF-16'?><request/>",
        b"<?xml version='1.0' encoding=''?><request/>",
        b"\xFE\xFF\0<",
        b"\xFF\xFE<\0",
    ] {
        let error = parse(body).unwrap_err();
        assert_eq!((error.status(), error.code().word()), (415, "bad-content-type"), "{body:?}");
    }
}

#[test]
fn bounds() {
    let body = |items: usize, atomic: bool| {
        let items = "<item biz='b' key='k'/>".repeat(items);
        format!("<request atomic='{atomic}'>{items}</request>")
    };
    for (items, atomic, fits) in
        [(4, false, true), (5, false, false), (2, true, true), (3, true, false)]
    {
        let read = parse(body(items, atomic).as_bytes());
        assert_eq!(read.is_ok(), fits);
        if let Err(error) = read {
            assert_eq!((error.status(), error.code().word()), (413, "too-many-items"));
            assert!(error.closes());
        }
    }
}

fn verdict(limited: bool, limit: u16, figures: Figures) -> Verdict {
    Verdict {
        limited,
        banned: false,
        limit,
        figures,
        retry_ms: None,
        window_ms: None,
        ..Verdict::UNJUDGED
    }
}

fn figures(used: u64, max: u64, remaining: u64, reset_ms: u64) -> Figures {
    Figures { used, max, remaining, reset_ms: Some(reset_ms) }
}

fn written(items: &[(&str, &str)], answers: &Answers) -> String {
    let mut request = Request::default();
    for (biz, key) in items {
        request.push(biz, key, ItemOptions::ONE);
    }
    let mut out = Vec::new();
    write::<Xml>(&mut out, &mut Line::default(), &request, answers);
    String::from_utf8(out).unwrap()
}

fn answer(result: Result<Verdict, ItemError>) -> Answer {
    Answer { biz: Some(0), result, details: 0..0, action: 0 }
}

#[test]
fn the_answer_of_the_contract() {
    let refused = figures(50, 50, 0, 86_399_000);
    let limit = |index, figures, retry_ms: Option<u64>| LimitFigures {
        index,
        policy: "sliding",
        figures,
        retry_ms,
        limited: retry_ms.is_some(),
        error_thousandths: None,
        history: HistorySpan::default(),
    };
    let answers = Answers {
        actions: Vec::new(),
        refused: false,
        items: vec![
            answer(Ok(verdict(false, 1, figures(1, 5, 4, 60_000)))),
            Answer {
                details: 0..2,
                ..answer(Ok(Verdict { retry_ms: Some(120_000), ..verdict(true, 2, refused) }))
            },
            answer(Err(ItemError::UnknownBiz)),
        ],
        details: vec![limit(1, figures(3, 15, 12, 59_000), None), limit(2, refused, Some(120_000))]
            .into(),
    };
    // The documented example, without the white space between its elements.
    let contract = r#"<response>
  <item biz="login" key="alice" limited="false" limit="1" used="1" max="5" remaining="4" reset="60000"/>
  <item biz="1002" key="18829340001" limited="true" limit="2" used="50" max="50" remaining="0" reset="86399000" retry="120000">
    <limit index="1" policy="sliding" used="3" max="15" remaining="12" reset="59000"/>
    <limit index="2" policy="sliding" used="50" max="50" remaining="0" reset="86399000" retry="120000"/>
  </item>
  <item biz="nope" key="x" error="unknown-biz"/>
</response>
"#;
    let items = [("login", "alice"), ("1002", "18829340001"), ("nope", "x")];
    let compact: String = contract.lines().map(str::trim_start).collect();
    assert_eq!(written(&items, &answers), compact + "\n");
}

#[test]
fn what_applies_only() {
    let item = |verdict: Verdict| {
        let answers =
            Answers { actions: Vec::new(), items: vec![answer(Ok(verdict))], ..Answers::default() };
        let text = written(&[("b", "k")], &answers);
        text.replace("<response><item biz=\"b\" key=\"k\" ", "").replace("/></response>\n", "")
    };
    let never = Figures { reset_ms: None, ..figures(10, 10, 0, 0) };
    let plain = "limit=\"1\" used=\"10\" max=\"10\" remaining=\"0\"";
    assert_eq!(item(verdict(true, 1, never)), format!("limited=\"true\" {plain}"));
    let banned = Verdict { banned: true, retry_ms: Some(9), ..verdict(true, 1, never) };
    assert_eq!(item(banned), format!("limited=\"true\" {plain} retry=\"9\" banned=\"true\""));
    // Retry appears only if the item is limited.
    let open = Verdict { retry_ms: Some(9), ..verdict(false, 1, never) };
    assert_eq!(item(open), format!("limited=\"false\" {plain}"));
    assert_eq!(item(verdict(false, 0, never)), "limited=\"false\"");

    let answers =
        Answers { refused: true, items: vec![answer(Err(ItemError::Busy))], ..Answers::default() };
    assert_eq!(
        written(&[("b", "k")], &answers),
        "<response refused=\"true\"><item biz=\"b\" key=\"k\" error=\"busy\"/></response>\n"
    );
    for (error, word) in [
        (ItemError::BadKey, "bad-key"),
        (ItemError::BadCount, "bad-count"),
        (ItemError::Store, "store"),
        (ItemError::Full, "full"),
    ] {
        let answers =
            Answers { actions: Vec::new(), items: vec![answer(Err(error))], ..Answers::default() };
        assert!(written(&[("b", "k")], &answers).contains(&format!("error=\"{word}\"")));
    }
}

#[test]
fn the_longest_elements_fit() {
    let most =
        Figures { used: u64::MAX, max: u64::MAX, remaining: u64::MAX, reset_ms: Some(u64::MAX) };
    let longest = Answer {
        details: 0..1,
        action: 1,
        ..answer(Ok(Verdict {
            banned: true,
            shadow: true,
            degraded: true,
            list: Some(List::Allow),
            weight: Some(u32::MAX),
            retry_ms: Some(u64::MAX),
            ..verdict(true, u16::MAX, most)
        }))
    };
    let answers = Answers {
        actions: vec!["captcha".into()],
        refused: false,
        items: vec![longest, answer(Err(ItemError::BadKey))],
        details: vec![LimitFigures {
            index: u16::MAX,
            policy: "sliding-counter",
            figures: most,
            retry_ms: Some(u64::MAX),
            limited: true,
            error_thousandths: Some(999),
            history: HistorySpan::default(),
        }]
        .into(),
    };
    // Names copied together with what follows them, as long as such names can be.
    let (biz, key) = ("b".repeat(32), "k".repeat(32));
    let text = written(&[(&biz, &key), (&biz, &key)], &answers);
    let names = format!("<response><item biz=\"{biz}\" key=\"{key}\" limited=\"true\" limit=");
    assert!(text.starts_with(&names), "{text}");
    assert!(text.contains(" list=\"allow\" action=\"captcha\">"), "{text}");
    assert!(text.contains(" standard-error=\"0.999\"/></item><item biz="), "{text}");
}

/// At most this many bytes of a text, in whole characters.
fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Short names with text behind them are copied together with it.
#[test]
fn names_of_any_length_before_anything() {
    let lengths = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100];
    let (ascii, wide, suspect) =
        ("abcdefgh".repeat(13), "\u{e9}\u{4e2d}\u{1f642}".repeat(12), "&<\">");
    for first in lengths {
        for second in lengths {
            for behind in [&ascii[..], &wide[..], suspect, "x", &ascii[..40]] {
                for text in [&ascii, &wide] {
                    let (biz, key) = (beginning(&ascii, first), beginning(text, second));
                    let answers = Answers {
                        items: vec![answer(Err(ItemError::BadKey)); 2],
                        ..Answers::default()
                    };
                    let escaped = behind.replace('&', "&amp;").replace('<', "&lt;");
                    let escaped = escaped.replace('>', "&gt;").replace('"', "&quot;");
                    assert_eq!(
                        written(&[(biz, key), ("b", behind)], &answers),
                        format!(
                            "<response><item biz=\"{biz}\" key=\"{key}\" error=\"bad-key\"/>\
                             <item biz=\"b\" key=\"{escaped}\" error=\"bad-key\"/></response>\n"
                        )
                    );
                }
            }
        }
    }
}

#[test]
fn echoes() {
    let answers = Answers {
        actions: Vec::new(),
        items: vec![answer(Err(ItemError::BadKey))],
        ..Answers::default()
    };
    let text =
        written(&[("<b>", "\0a\u{1F}\t\n\r&\"'<>é\u{FFFE}\u{FFFF}\u{FFFD}\u{EFFF}")], &answers);
    assert_eq!(
        text,
        "<response><item biz=\"&lt;b&gt;\" \
         key=\"\u{FFFD}a\u{FFFD}&#9;&#10;&#13;&amp;&quot;'&lt;&gt;é\u{FFFD}\u{FFFD}\u{FFFD}\u{EFFF}\" \
         error=\"bad-key\"/></response>\n"
    );
}

#[test]
fn names_are_written_as_they_are_where_their_reader_has_seen_nothing_to_escape() {
    for (key, is_plain, echo) in [
        ("\"alice\"", true, "alice"),
        ("'alice'", true, "alice"),
        ("\"a>b\"", false, "a&gt;b"),
        ("'a\"b'", false, "a&quot;b"),
        ("\"a&amp;b\"", false, "a&amp;b"),
        ("\"a&#9;b\"", false, "a&#9;b"),
        // These need no escape, but are examined again.
        ("\"a b\"", false, "a b"),
        ("\"käse\"", false, "käse"),
    ] {
        for others in ["", " count=\"2\""] {
            let body = format!(
                "<request><item biz=\"a\" key={key}{others}/><item biz=\"a\" key=\"last\"/></request>"
            );
            let (mut request, mut decoded) = (Request::default(), Decoded::default());
            read(body.as_bytes(), Command::Update, BOUNDS, &mut decoded, &mut request).unwrap();
            assert_eq!(request.is_plain, is_plain, "{body}");
            let items = (0..2).map(|_| answer(Err(ItemError::Busy))).collect();
            let answers = Answers { items, ..Answers::default() };
            let mut out = Vec::new();
            write::<Xml>(&mut out, &mut Line::default(), &request, &answers);
            let element = |key| format!("<item biz=\"a\" key=\"{key}\" error=\"busy\"/>");
            let expected = format!("<response>{}{}</response>\n", element(echo), element("last"));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            request.begin(Command::Query);
            assert!(!request.is_plain);
        }
    }
}

#[test]
fn error_documents() {
    let text = |body: &str| {
        let mut out = Vec::new();
        write_error::<Xml>(
            &mut out,
            &mut Line::default(),
            &parse(body.as_bytes()).unwrap_err(),
            None,
        );
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        text("<request><item biz='b' key='&<>;'/></request>"),
        "<error code=\"bad-xml\" line=\"1\" column=\"29\">expected a reference to lt, gt, amp, \
         apos, quot or to a character XML allows, found &quot;&amp;&lt;&gt;;&quot;</error>\n"
    );
    assert_eq!(
        text("<request>\n<item bizz='b'/></request>"),
        "<error code=\"bad-request\" line=\"2\" column=\"7\">unknown attribute: expected biz, \
         key, count, force, detail, member, rate, burst, max, partial, once, hold, ttl or settle, \
         found &quot;bizz&quot;</error>\n"
    );
}
