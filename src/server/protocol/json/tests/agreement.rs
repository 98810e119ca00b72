//! The two formats say the same about the same answers.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::protocol::{Format, codec};
use frs_engine::{
    AnswerAge, Details, Figures, HistorySpan, ItemNames, ItemOptions, LimitFigures, List, Mark,
    Noted, Verdict,
};

/// An element or object: its name in XML, its attributes or members, and its content.
#[derive(Debug, PartialEq)]
struct Node {
    values: Vec<(String, String)>,
    nodes: Vec<Node>,
}

/// Members that are text in JSON, and not a number or a flag.
const TEXTS: [&str; 7] = ["biz", "key", "error", "action", "list", "policy", "message"];

fn of_xml(text: &str) -> Node {
    use quick_xml::XmlVersion;
    use quick_xml::events::Event;

    let mut reader = quick_xml::Reader::from_str(text);
    let mut open = vec![Node { values: Vec::new(), nodes: Vec::new() }];
    loop {
        let event = reader.read_event().expect("well-formed");
        match &event {
            Event::Start(start) | Event::Empty(start) => {
                let values = start.attributes().map(|attribute| {
                    let attribute = attribute.expect("an attribute");
                    let value = attribute.normalized_value(XmlVersion::Explicit1_0).unwrap();
                    (attribute.key.into_inner().to_owned(), value.into_owned())
                });
                open.push(Node { values: values.collect(), nodes: Vec::new() });
            }
            Event::Eof => return open.pop().unwrap().nodes.pop().expect("a root"),
            _ => {}
        }
        if matches!(event, Event::Empty(_) | Event::End(_)) {
            let node = open.pop().expect("an open element");
            open.last_mut().expect("its parent").nodes.push(node);
        }
    }
}

/// The same shape from a value.
fn of_json(value: &Value) -> Node {
    let mut node = Node { values: Vec::new(), nodes: Vec::new() };
    for (name, value) in value.as_object().expect("an object") {
        match value {
            Value::Array(totals) if name == "history" => {
                let totals: Vec<String> = totals.iter().map(Value::to_string).collect();
                node.values.push((name.clone(), totals.join(" ")));
            }
            Value::Array(values) => {
                assert!(["items", "limits"].contains(&&**name), "{name}");
                node.nodes = values.iter().map(of_json).collect();
            }
            Value::String(text) => {
                assert!(TEXTS.contains(&&**name), "{name} is no text");
                node.values.push((name.clone(), text.clone()));
            }
            Value::Bool(_) | Value::Number(_) => {
                let is_echo = name == "biz" || name == "key";
                assert!(is_echo || !TEXTS.contains(&&**name), "{name} is text");
                node.values.push((name.clone(), value.to_string()));
            }
            other => panic!("{name}: {other}"),
        }
    }
    node
}

fn sorted(mut node: Node) -> Node {
    node.values.sort();
    node.nodes = node.nodes.into_iter().map(sorted).collect();
    node
}

fn figures() -> impl Strategy<Value = Figures> {
    (number(), number(), number(), proptest::option::of(number()))
        .prop_map(|(used, max, remaining, reset_ms)| Figures { used, max, remaining, reset_ms })
}

fn number() -> impl Strategy<Value = u64> {
    let of_any_length = (any::<u64>(), 0..64).prop_map(|(number, shift)| number >> shift);
    prop_oneof![0u64..100, of_any_length, Just(u64::MAX), Just((1 << 53) - 1)]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let lists = proptest::sample::select(vec![None, Some(List::Allow), Some(List::Deny)]);
    (
        (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), lists),
        (prop_oneof![Just(0u16), 1u16..4, any::<u16>()], proptest::option::of(0u32..3000)),
        (figures(), proptest::option::of(number()), proptest::option::of(number())),
        proptest::option::of(proptest::option::of(number())),
        (proptest::option::of(any::<u32>()), any::<[bool; 2]>(), proptest::option::of(number())),
    )
        .prop_map(
            |(flags, (limit, weight), (figures, retry_ms, window_ms), shared, of_call)| {
                let (granted, [repeated, unknown_hold], held) = of_call;
                let (limited, banned, shadow, degraded, list) = flags;
                Verdict {
                    limited,
                    banned,
                    banned_by: 0,
                    shadow,
                    degraded,
                    list,
                    limit,
                    advised: 0,
                    weight,
                    figures,
                    retry_ms,
                    window_ms,
                    level_ns: 0,
                    shared: shared.map(AnswerAge::of),
                    noted: noted(granted, [repeated, unknown_hold], held),
                }
            },
        )
}

fn error() -> impl Strategy<Value = ItemError> {
    proptest::sample::select(&ItemError::ALL)
}

fn limits() -> impl Strategy<Value = Vec<(LimitFigures, Option<Vec<u32>>)>> {
    let policy = proptest::sample::select(vec!["interval", "sliding-counter", "total"]);
    let error = proptest::option::of(1..1000_u16);
    let limit = (any::<u16>(), policy, figures(), proptest::option::of(number()), error).prop_map(
        |(index, policy, figures, retry_ms, error_thousandths)| LimitFigures {
            index,
            policy,
            figures,
            retry_ms,
            limited: retry_ms.is_some(),
            error_thousandths,
            history: HistorySpan::default(),
        },
    );
    let totals = proptest::option::of(proptest::collection::vec(any::<u32>(), 0..400));
    proptest::collection::vec((limit, totals), 0..3)
}

fn exchange(name: &'static str, most_items: usize) -> impl Strategy<Value = (Request, Answers)> {
    let result = prop_oneof![4 => verdict().prop_map(Ok), 1 => error().prop_map(Err)];
    let action = proptest::option::of("[a-z-]{1,12}|[<&\"\\\\\t]");
    let item = (name, name, result, limits(), action, any::<u32>());
    (proptest::collection::vec(item, 0..most_items), any::<bool>()).prop_map(|(items, refused)| {
        let (mut request, mut answers) = (Request::default(), Answers::default());
        answers.refused = refused;
        for (biz, key, result, limits, action, number) in items {
            if number % 2 == 0 {
                request.push(&biz, &key, ItemOptions::ONE);
            } else {
                request.push(&number.to_string(), &number.to_string(), ItemOptions::ONE);
                request.note_numbers(ItemNames { biz: number % 3 == 0, key: number % 5 == 0 });
            }
            let details = Range { start: answers.details.len(), end: 0 };
            for (figures, totals) in limits {
                answers.details.push(figures, totals.map(Vec::into_iter));
            }
            let details = details.start..answers.details.len();
            let action = action.map_or(0, |word| {
                answers.actions.push(Arc::from(word));
                answers.actions.len()
            });
            answers.items.push(Answer { biz: None, result, details, action });
        }
        (request, answers)
    })
}

fn text(format: Format, request: &Request, answers: &Answers) -> String {
    let mut out = Vec::new();
    codec::write(format, &mut out, &mut Line::default(), request, answers);
    String::from_utf8(out).expect("UTF-8")
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Checks that the text is one line, and that no member of an object is repeated: a value would
/// keep only one of two.
fn assert_compact(text: &str, request: &Request) {
    assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
    let has_colon = |item| request.biz(item).contains(':') || request.key(item).contains(':');
    if !request.items().iter().any(has_colon) {
        assert_eq!(text.matches(':').count(), count_members(&value(text)), "{text}");
    }
}

fn count_members(value: &Value) -> usize {
    match value {
        Value::Object(members) => {
            members.len() + members.values().map(count_members).sum::<usize>()
        }
        Value::Array(values) => values.iter().map(count_members).sum(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    // Shows: same-in-xml-and-json, faces-agree.
    #[test]
    fn both_formats_say_the_same((request, answers) in exchange(".*", 4)) {
        let (xml, json) =
            (text(Format::Xml, &request, &answers), text(Format::Json, &request, &answers));
        assert_compact(&json, &request);
        prop_assert_eq!(sorted(of_xml(&xml)), sorted(of_json(&value(&json))), "{}{}", xml, json);
    }
}

/// The elements of an answer in a row.
fn elements(format: Format, request: &Request, answers: &Answers) -> String {
    let text = text(format, request, answers);
    let (before, behind) = match (format, answers.refused) {
        (Format::Xml, false) => ("<response>", "</response>\n"),
        (Format::Xml, true) => ("<response refused=\"true\">", "</response>\n"),
        (Format::Json, false) => ("{\"items\":[", "]}\n"),
        (Format::Json, true) => ("{\"refused\":true,\"items\":[", "]}\n"),
    };
    let rest = text.strip_prefix(before).expect(before);
    rest.strip_suffix(behind).expect(behind).to_owned()
}

/// The elements of each item answered alone: no other item's answer is remembered, no text follows
/// its names, and it begins a line.
fn elements_alone(format: Format, request: &Request, answers: &Answers) -> String {
    let alone = request.items().iter().zip(&answers.items).map(|(item, answer)| {
        let mut request_of_one = Request::default();
        request_of_one.push(request.biz(item), request.key(item), ItemOptions::ONE);
        request_of_one.note_numbers(ItemNames { biz: item.biz_is_number, key: item.key_is_number });
        let answers = Answers { items: vec![answer.clone()], ..answers.clone() };
        elements(format, &request_of_one, &answers)
    });
    alone.collect::<Vec<_>>().join(if format == Format::Json { "," } else { "" })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn many_items_are_answered_as_each_alone(
        plain in exchange("[a-z\u{e9}]{0,20}|[a-z]{28,36}|[a-z]{100}", 80),
        any in exchange("[a-z<\"\\\\\u{FFFE}]{0,5}|[a-z]{28,36}", 8),
    ) {
        for (request, answers) in [plain, any] {
            for format in [Format::Xml, Format::Json] {
                prop_assert_eq!(
                    elements(format, &request, &answers),
                    elements_alone(format, &request, &answers)
                );
            }
        }
    }
}

fn unjudged() -> Verdict {
    Verdict {
        figures: Figures { used: 9, max: 9, remaining: 9, reset_ms: Some(9) },
        ..Verdict::UNJUDGED
    }
}

/// The item's text behind its key, in both formats.
fn said(verdict: Verdict, action: Option<&str>) -> (String, String) {
    let mut request = Request::default();
    request.push("b", "k", ItemOptions::ONE);
    let mut answers = Answers::default();
    answers.actions.extend(action.map(Arc::from));
    let item = Answer { action: answers.actions.len(), ..answer(Ok(verdict)) };
    answers.items.push(item);
    let (xml, json) =
        (text(Format::Xml, &request, &answers), text(Format::Json, &request, &answers));
    let between = |text: &str, before: &str, behind: &str| {
        let rest = text.strip_prefix(before).expect(before);
        rest.strip_suffix(behind).expect(behind).to_owned()
    };
    (
        between(&xml, "<response><item biz=\"b\" key=\"k\" ", "/></response>\n"),
        between(&json, "{\"items\":[{\"biz\":\"b\",\"key\":\"k\",", "}]}\n"),
    )
}

#[test]
fn what_applies_only() {
    for (verdict, action, xml, json) in [
        (unjudged(), None, "limited=\"false\"", "\"limited\":false"),
        (
            Verdict { degraded: true, ..unjudged() },
            None,
            "limited=\"false\" degraded=\"true\"",
            "\"limited\":false,\"degraded\":true",
        ),
        (
            Verdict { list: Some(List::Allow), ..unjudged() },
            None,
            "limited=\"false\" list=\"allow\"",
            "\"limited\":false,\"list\":\"allow\"",
        ),
        (
            Verdict { limited: true, list: Some(List::Deny), ..unjudged() },
            None,
            "limited=\"true\" list=\"deny\"",
            "\"limited\":true,\"list\":\"deny\"",
        ),
        (
            Verdict { limit: 2, weight: Some(300), shadow: true, ..unjudged() },
            Some("captcha"),
            "limited=\"false\" limit=\"2\" used=\"9\" max=\"9\" remaining=\"9\" reset=\"9\" \
             weight=\"0.3\" shadow=\"true\" action=\"captcha\"",
            "\"limited\":false,\"limit\":2,\"used\":9,\"max\":9,\"remaining\":9,\"reset\":9,\
             \"weight\":0.3,\"shadow\":true,\"action\":\"captcha\"",
        ),
        (
            Verdict { noted: noted(Some(7), [true, false], Some(0)), ..unjudged() },
            None,
            "limited=\"false\" granted=\"7\" repeated=\"true\" held=\"0\"",
            "\"limited\":false,\"granted\":7,\"repeated\":true,\"held\":0",
        ),
        (
            Verdict { noted: noted(None, [false, true], None), ..unjudged() },
            None,
            "limited=\"false\" unknown-hold=\"true\"",
            "\"limited\":false,\"unknown-hold\":true",
        ),
        (
            Verdict {
                limited: true,
                banned: true,
                limit: 1,
                retry_ms: Some(7),
                ..Verdict::UNJUDGED
            },
            None,
            "limited=\"true\" limit=\"1\" used=\"0\" max=\"0\" remaining=\"0\" retry=\"7\" \
             banned=\"true\"",
            "\"limited\":true,\"limit\":1,\"used\":0,\"max\":0,\"remaining\":0,\"retry\":7,\
             \"banned\":true",
        ),
    ] {
        assert_eq!(said(verdict, action), (xml.to_owned(), json.to_owned()));
    }
}

#[test]
fn weights() {
    for (thousandths, expected) in
        [(0, "0"), (1, "0.001"), (50, "0.05"), (1000, "1"), (1250, "1.25")]
    {
        let (xml, json) = said(Verdict { weight: Some(thousandths), ..unjudged() }, None);
        assert!(xml.ends_with(&format!(" weight=\"{expected}\"")), "{xml}");
        assert!(json.ends_with(&format!(",\"weight\":{expected}")), "{json}");
    }
}

#[test]
fn the_answer_of_the_contract() {
    let figures =
        |used, max, remaining, reset| Figures { used, max, remaining, reset_ms: Some(reset) };
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
    let judged = |limited, limit, figures, retry_ms| Verdict {
        limited,
        limit,
        figures,
        retry_ms,
        ..Verdict::UNJUDGED
    };
    let mut request = Request::default();
    for (biz, key) in [("login", "alice"), ("1002", "18829340001"), ("nope", "x")] {
        request.push(biz, key, ItemOptions::ONE);
        request.note_numbers(ItemNames { biz: false, key: key == "18829340001" });
    }
    let answers = Answers {
        refused: true,
        items: vec![
            answer(Ok(judged(false, 1, figures(1, 5, 4, 60_000), None))),
            Answer { details: 0..2, ..answer(Ok(judged(true, 2, refused, Some(120_000)))) },
            answer(Err(ItemError::UnknownBiz)),
        ],
        details: vec![limit(1, figures(3, 15, 12, 59_000), None), limit(2, refused, Some(120_000))]
            .into(),
        actions: Vec::new(),
    };
    assert_eq!(
        text(Format::Json, &request, &answers),
        "{\"refused\":true,\"items\":[\
         {\"biz\":\"login\",\"key\":\"alice\",\"limited\":false,\"limit\":1,\"used\":1,\"max\":5,\
         \"remaining\":4,\"reset\":60000},\
         {\"biz\":\"1002\",\"key\":18829340001,\"limited\":true,\"limit\":2,\"used\":50,\"max\":50,\
         \"remaining\":0,\"reset\":86399000,\"retry\":120000,\"limits\":[\
         {\"index\":1,\"policy\":\"sliding\",\"used\":3,\"max\":15,\"remaining\":12,\
         \"reset\":59000},\
         {\"index\":2,\"policy\":\"sliding\",\"used\":50,\"max\":50,\"remaining\":0,\
         \"reset\":86399000,\"retry\":120000}]},\
         {\"biz\":\"nope\",\"key\":\"x\",\"error\":\"unknown-biz\"}]}\n"
    );
}

#[test]
fn the_longest_words_fit() {
    let most =
        Figures { used: u64::MAX, max: u64::MAX, remaining: u64::MAX, reset_ms: Some(u64::MAX) };
    let verdict = Verdict {
        limited: true,
        banned: true,
        banned_by: 0,
        shadow: true,
        degraded: true,
        list: Some(List::Allow),
        limit: u16::MAX,
        advised: 0,
        weight: Some(u32::MAX),
        figures: most,
        retry_ms: Some(u64::MAX),
        window_ms: None,
        level_ns: 0,
        shared: Some(AnswerAge::of(Some(u64::MAX))),
        noted: noted(Some(MOST_GRANTED), [true; 2], Some(u64::MAX - 1)),
    };
    let (xml, json) = said(verdict, Some(&"word".repeat(200)));
    let held = u64::MAX - 1;
    let end = format!(
        "word\" granted=\"2147483647\" repeated=\"true\" held=\"{held}\" unknown-hold=\"true\""
    );
    assert!(xml.contains("list=\"allow\" action=\"word") && xml.ends_with(&end), "{xml}");
    let end = format!(
        "word\",\"granted\":2147483647,\"repeated\":true,\"held\":{held},\"unknown-hold\":true"
    );
    let begins = json.contains("\"list\":\"allow\",\"action\":\"word");
    assert!(begins && json.ends_with(&end), "{json}");
}

/// The bound used to count memory, without what is echoed of the item.
#[test]
fn the_longest_answers_are_within_their_bound() {
    use crate::protocol::format::{ANSWER_BYTES, WINDOW_BYTES};

    const LONGEST: u64 = (1 << 53) - 1;
    let figures =
        Figures { used: LONGEST, max: LONGEST, remaining: LONGEST, reset_ms: Some(LONGEST) };
    let flags = |limited: bool| Verdict {
        limited,
        banned: limited,
        shadow: !limited,
        list: None,
        limit: u16::MAX,
        advised: 1,
        weight: Some(999_999),
        figures,
        retry_ms: Some(LONGEST),
        noted: noted(Some(MOST_GRANTED), [true; 2], Some(LONGEST)),
        ..Verdict::UNJUDGED
    };
    let mut request = Request::default();
    request.begin(Command::Update);
    request.push("b", "k", ItemOptions::ONE);
    let actions = vec![Arc::from("w".repeat(32))];
    let limit = LimitFigures {
        index: u16::MAX,
        policy: "sliding-counter",
        figures,
        retry_ms: Some(LONGEST),
        limited: true,
        error_thousandths: Some(999),
        history: HistorySpan::default(),
    };
    let history = |windows| {
        let mut details = Details::default();
        details.push(limit, Some(std::iter::repeat_n(u32::MAX, windows)));
        details
    };
    for format in [Format::Xml, Format::Json] {
        let length_of = |result: Option<Verdict>, details: Details| {
            let (items, limits) = (result.is_some().into(), details.len());
            let result = Ok(result.unwrap_or(Verdict::UNJUDGED));
            let answer = Answer { biz: Some(0), result, details: 0..limits, action: 1 };
            let actions = actions.clone();
            let answers = Answers { items: vec![answer; items], details, actions, refused: true };
            let mut out = Vec::new();
            codec::write(format, &mut out, &mut Line::default(), &request, &answers);
            out.len()
        };
        let length = |result, limits: usize| length_of(result, Details::from(vec![limit; limits]));
        let item = [true, false].map(|limited| length(Some(flags(limited)), 0)).into_iter().max();
        let item = item.unwrap_or(0) - length(None, 0);
        assert!((200..=ANSWER_BYTES).contains(&item), "{format:?}: {item}");
        let limit = length(Some(flags(true)), 2) - length(Some(flags(true)), 1);
        assert!((150..=ANSWER_BYTES).contains(&limit), "{format:?}: {limit}");
        let with_history = length_of(Some(flags(true)), history(366));
        let limit = with_history - length(Some(flags(true)), 0);
        assert!(limit <= ANSWER_BYTES + 366 * WINDOW_BYTES, "{format:?}: {limit}");
        let window = with_history - length_of(Some(flags(true)), history(365));
        assert!((11..=WINDOW_BYTES).contains(&window), "{format:?}: {window}");
    }
}

/// The most that an item is granted: its count.
const MOST_GRANTED: u32 = i32::MAX as u32;

fn noted(granted: Option<u32>, [repeated, unknown]: [bool; 2], held: Option<u64>) -> Noted {
    let noted = granted.map_or(Noted::NOTHING, |granted| Noted::NOTHING.granting(granted));
    noted.with(Mark::Repeated, repeated).with(Mark::UnknownHold, unknown).holding(held)
}
