//! Allowed answers, and one answer for each way to break a rule.

use clap::Parser;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

fn checker(words: &str) -> Checker {
    let words = format!("frs-load unix:a --biz b {words}");
    Checker::new(&Arguments::parse_from(words.trim_end().split(' ')))
}

fn call(words: &str) -> Call {
    let words = format!("frs-load unix:a {words}");
    Call::new(&Arguments::parse_from(words.trim_end().split(' ')))
}

/// Checks an answer to this many items. The head of a single one fits its attributes.
fn check_document(words: &str, body: &str, items: usize) -> Result<Vec<Outcome>, String> {
    let json = words.contains("--json");
    let content_type = if json { "application/json" } else { "application/xml" };
    let reply = Reply { status: 200, content_type, body: body.as_bytes(), ..Reply::default() };
    let keys: Vec<u32> = (0..items as u32).collect();
    let mut outcomes = Vec::new();
    let call = call(words);
    let asked = Asked { keys: &keys, first: 0, call: &call, again: words.contains("--once") };
    checker(words).check(&reply, asked, |noted| outcomes.push(noted.outcome)).map(|()| outcomes)
}

/// Checks two items, so that no head is compared: one with these attributes, one without a fault.
fn check(words: &str, attributes: &str) -> Result<Outcome, String> {
    let body = format!(
        "<response><item biz=\"b\" key=\"k0\" {attributes}/><item biz=\"b\" key=\"k1\" \
         error=\"busy\"/></response>\n"
    );
    check_document(words, &body, 2).map(|outcomes| outcomes[0])
}

#[track_caller]
fn assert_verdict(words: &str, attributes: &str, verdict: Verdict) {
    assert_eq!(check(words, attributes), Ok(Outcome::Verdict(verdict)), "{attributes}");
}

#[track_caller]
fn assert_wrong(words: &str, attributes: &str, what: &str) {
    let found = check(words, attributes).expect_err(attributes);
    assert!(found.contains(what), "{attributes}: {found}");
}

const ONE: &str = r#"limited="false" limit="1" used="1" max="5" remaining="4" reset="60000""#;
const FULL: &str = r#"limited="true" limit="1" used="5" max="5" remaining="0" reset="9" retry="9""#;

#[test]
fn what_may_be_said() {
    assert_verdict("", ONE, Verdict::Allowed);
    assert_verdict("", FULL, Verdict::Limited);
    assert_verdict("", &format!("{FULL} banned=\"true\""), Verdict::Banned);
    assert_verdict("", r#"limited="false""#, Verdict::Allowed);
    assert_verdict("", r#"limited="false" degraded="true""#, Verdict::Degraded);
    assert_verdict("", r#"limited="false" list="allow""#, Verdict::Listed);
    assert_verdict("", r#"limited="true" list="deny""#, Verdict::Listed);
    let debt = r#"limited="false" limit="1" used="1" max="5" remaining="7" reset="1""#;
    assert_verdict("", debt, Verdict::Allowed);
    let ban = r#"limited="true" limit="1" used="0" max="5" remaining="5" reset="0" banned="true""#;
    assert_verdict("", ban, Verdict::Banned);
    let shadow = r#"limited="false" limit="1" used="5" max="5" remaining="0" reset="1""#;
    assert_verdict("--query", &format!("{shadow} shadow=\"true\""), Verdict::Shadowed);
    let advice = r#"limited="false" limit="1" used="7" max="5" remaining="0" reset="1""#;
    assert_verdict("--query", &format!("{advice} action=\"captcha\""), Verdict::Allowed);
    let counted = r#"limited="false" limit="1" used="7" max="0" remaining="0""#;
    assert_verdict("--query", counted, Verdict::Allowed);
    let fresh = r#"limited="false" limit="1" used="0" max="5" remaining="5" reset="0""#;
    assert_verdict("--query", &format!("{fresh} weight=\"0.3\""), Verdict::Allowed);
    // Some is left in the cluster, and none came in time.
    let missed = r#"limited="true" limit="1" used="1" max="5" remaining="4" reset="9" retry="9""#;
    assert_verdict("", &format!("{missed} shared=\"true\""), Verdict::Limited);
    let others = r#"limited="false" limit="1" used="5" max="5" remaining="0" reset="9""#;
    assert_verdict("--query", &format!("{others} shared=\"true\" age=\"20\""), Verdict::Allowed);
    assert_eq!(check("", r#"error="full""#), Ok(Outcome::Error("full")));
}

#[test]
fn a_window_that_turns_is_told_with_its_key() {
    let body = format!(
        "<response><item biz=\"b\" key=\"k0\" {FULL}/>\
         <item biz=\"b\" key=\"k1\" limited=\"false\" limit=\"1\" used=\"0\" max=\"5\" \
         remaining=\"5\" reset=\"0\"/></response>"
    );
    let content_type = "application/xml";
    let reply = Reply { status: 200, content_type, body: body.as_bytes(), ..Reply::default() };
    let mut noted = Vec::new();
    let call = call("");
    let asked = Asked { keys: &[0, 1], first: 0, call: &call, again: false };
    checker("--query").check(&reply, asked, |one| noted.push((one.key, one.window))).unwrap();
    assert_eq!(noted, [(0, Some(Turn { max: 5, turns_in_ms: 9 })), (1, None)]);
}

#[test]
fn what_may_not_be_said() {
    for (attributes, what) in [
        ("", "neither limited nor error"),
        (r#"limited="yes""#, "limited has no value"),
        (r#"limited="true""#, "limited by nothing"),
        (r#"limited="false" banned="true""#, "banned, and not limited"),
        (r#"limited="false" limit="1""#, "stand together"),
        (r#"limited="false" reset="1""#, "reset without a limit"),
        (r#"limited="false" list="grey""#, "a list of another name"),
        (r#"limited="true" list="allow""#, "on the list of the allowed"),
        (r#"limited="true" list="deny" retry="1""#, "retry on the list of the denied"),
        (r#"limited="true" degraded="true""#, "degraded, and judged"),
        (r#"limited="false" shared="true""#, "shared, and judged by no limit"),
        (r#"limited="false" age="1""#, "an age of what is not shared"),
        (r#"error="busy" limited="false""#, "beside other attributes"),
        (r#"error="unknown-biz""#, "see --biz"),
        (r#"limited="false" limited="false""#, "no XML"),
        (r#"limited="false" speed="1""#, "unknown speed"),
        (r#"limited="false" action="&lol;""#, "no XML"),
    ] {
        assert_wrong("", attributes, what);
    }
    for (from, to, what) in [
        ("limit=\"1\"", "limit=\"0\"", "counted from 1"),
        ("used=\"1\"", "used=\"-1\"", "used has no value"),
        ("used=\"1\"", "used=\"9007199254740992\"", "used has no value"),
        ("remaining=\"4\"", "remaining=\"3\"", "less than max"),
        (
            "used=\"1\" max=\"5\" remaining=\"4\"",
            "used=\"0\" max=\"5\" remaining=\"5\"",
            "reset is 0",
        ),
        ("reset=\"60000\"", "reset=\"0\"", "reset is 0"),
        ("reset=\"60000\"", "reset=\"60000\" retry=\"5\"", "retry where nothing"),
        ("limited=\"false\"", "limited=\"true\"", "limited, and it fits"),
        ("reset=\"60000\"", "reset=\"60000\" list=\"allow\"", "decided by a list"),
    ] {
        assert_wrong("", &ONE.replace(from, to), what);
    }
    assert_wrong("", &format!("{ONE} shared=\"false\""), "shared is true");
    assert_wrong("", &FULL.replace("retry=\"9\"", "retry=\"0\""), "retry at once");
    assert_wrong("", &format!("{FULL} shadow=\"true\""), "shadow, and limited");
    let uncharged = r#"limited="false" limit="1" used="0" max="5" remaining="5" reset="0""#;
    assert_wrong("", uncharged, "allowed, and not charged");
    let none_left = r#"limited="false" limit="1" used="5" max="5" remaining="0" reset="1""#;
    assert_wrong("--query", none_left, "does not fit");
}

#[test]
fn what_the_call_brings_is_held_to_its_rules() {
    let partial = "--partial --count 7";
    let (none, some) = (format!("{FULL} granted=\"0\""), format!("{ONE} granted=\"1\""));
    assert_verdict(partial, &none, Verdict::Limited);
    assert_verdict(partial, &some, Verdict::Allowed);
    assert_verdict(partial, r#"limited="false" degraded="true""#, Verdict::Degraded);
    for (attributes, what) in [
        (ONE.to_owned(), "nothing granted"),
        (some.replace("granted=\"1\"", "granted=\"8\""), "more is granted"),
        (some.replace("granted=\"1\"", "granted=\"0\""), "granted 0"),
        (none.replace("granted=\"0\"", "granted=\"1\""), "granted 0"),
        (none.replace("remaining=\"0\"", "remaining=\"1\""), "limited, and it fits"),
    ] {
        assert_wrong(partial, &attributes, what);
    }
    assert_wrong("", &some, "not partial");
    let few = FULL.replace("remaining=\"0\"", "remaining=\"6\"");
    assert_verdict("--count 7", &few, Verdict::Limited);
    assert_wrong("--count 6", &few, "limited, and it fits");
    assert_verdict("--query --count 4", ONE, Verdict::Allowed);
    assert_wrong("--query --count 5", ONE, "does not fit");
    let repeated = format!("{ONE} repeated=\"true\"");
    assert_verdict("--once", &repeated, Verdict::Allowed);
    assert_wrong("", &repeated, "was not sent before");
    assert_wrong("--once", &format!("{FULL} repeated=\"true\""), "repeated, and limited");
    assert_wrong("--once", &format!("{ONE} repeated=\"false\""), "repeated is true");
    assert_wrong("", &format!("{ONE} unknown-hold=\"true\""), "none was settled");
    // The first item of a run takes.
    assert_wrong("--holds 1", &format!("{ONE} held=\"0\""), "less is held");
    assert_verdict("--holds 1", &format!("{ONE} held=\"1\" repeated=\"true\""), Verdict::Allowed);
    assert_wrong("--holds 1", ONE, "nothing held");
}

#[test]
fn documents_that_are_wrong() {
    let item = |key| format!("<item biz=\"b\" key=\"{key}\" error=\"busy\"/>");
    let good = format!("<response>{}</response>", item("k0"));
    assert!(check_document("", &good, 1).is_ok());
    for (body, what) in [
        (String::new(), "expected <response>"),
        (good.replace("</response>", ""), "expected <item>"),
        (good.replace("response>", "answer>"), "expected <response>"),
        (format!("{good}{good}"), "behind the document"),
        (good.replace("<response>", "<response refused=\"true\">"), "no attribute"),
        (good.replace("\"/>", "\"><limit/></item>"), "no detail was asked for"),
        (good.replace("biz=\"b\"", "biz=\"c\""), "not an answer to biz b, key k0"),
        (good.replace("k0", "k1"), "not an answer to biz b, key k0"),
        (good.replace(" key=\"k0\"", ""), "not an answer to biz b, key k0"),
        (good.replace("</response>", &format!("{}</response>", item("k1"))), "more items"),
        (good.replace(&item("k0"), ""), "0 items, expected 1"),
    ] {
        let found = check_document("", &body, 1).expect_err(&body);
        assert!(found.contains(what), "{body}: {found}");
    }
}

#[test]
fn json_is_held_to_the_same() {
    let good = r#"{"items":[{"biz":"b","key":"k0","limited":false}]}"#;
    let allowed = vec![Outcome::Verdict(Verdict::Allowed)];
    assert_eq!(check_document("--json", good, 1), Ok(allowed));
    for (from, to, what) in [
        ("]}", "]", "no JSON"),
        ("items", "item", "expected the member items alone"),
        ("[{", "[[{", "no JSON"),
        ("\"k0\"", "0", "key has no value of its kind"),
        ("false", "\"false\"", "limited has no value of its kind"),
        ("false", "true", "limited by nothing"),
        ("false", "false,\"retry\":-1", "retry has no value"),
    ] {
        let body = good.replacen(from, to, 1);
        let found = check_document("--json", &body, 1).expect_err(&body);
        assert!(found.contains(what), "{body}: {found}");
    }
}

fn check_error(words: &str, status: u16, body: &str) -> Result<Vec<Outcome>, String> {
    let json = words.contains("--json");
    let content_type = if json { "application/json" } else { "application/xml" };
    let reply = Reply { status, content_type, body: body.as_bytes(), ..Reply::default() };
    let mut outcomes = Vec::new();
    let call = call(words);
    let asked = Asked { keys: &[0, 1], first: 0, call: &call, again: false };
    checker(words).check(&reply, asked, |noted| outcomes.push(noted.outcome)).map(|()| outcomes)
}

#[test]
fn errors_of_whole_requests() {
    let overloaded = "<error code=\"overloaded\">come again &gt; later</error>\n";
    let twice = Ok(vec![Outcome::Error("overloaded"); 2]);
    assert_eq!(check_error("", 503, overloaded), twice);
    let json = r#"{"error":{"code":"overloaded","message":"come again"}}"#;
    assert_eq!(check_error("--json", 503, json), twice);
    // The code does not match the status, or the fault is the request's.
    assert!(check_error("", 408, overloaded).is_err());
    let found = check_error("", 413, "<error code=\"too-many-items\">at most 1</error>");
    assert_eq!(found, Err("status 413, too-many-items: at most 1".to_owned()));
    assert!(check_error("", 503, "<error>words</error>").is_err());
    assert!(check_error("", 503, "overloaded").is_err());
}

fn check_head(change: impl FnOnce(&mut Reply<'_>)) -> Result<(), String> {
    let body = format!("<response><item biz=\"b\" key=\"k0\" {FULL}/></response>");
    let mut reply = Reply {
        status: 200,
        content_type: "application/xml",
        rate_limit: Some(b"\"b\";r=0;t=1"),
        rate_limit_policy: Some(b"\"b\";q=5;w=60"),
        ..Reply::default()
    };
    change(&mut reply);
    let call = call("");
    let asked = Asked { keys: &[0], first: 0, call: &call, again: false };
    checker("").check(&Reply { body: body.as_bytes(), ..reply }, asked, |_| {})
}

#[test]
fn the_head_agrees_with_a_single_item() {
    assert_eq!(check_head(|_| {}), Ok(()));
    assert!(check_head(|reply| reply.content_type = "text/plain").is_err());
    assert!(check_head(|reply| reply.retry_after = Some(b"1")).is_err());
    assert!(check_head(|reply| reply.rate_limit = None).is_err());
    assert!(check_head(|reply| reply.rate_limit = Some(b"\"b\";r=1;t=1")).is_err());
    assert!(check_head(|reply| reply.rate_limit = Some(b"\"b\";r=0")).is_err());
    assert!(check_head(|reply| reply.rate_limit_policy = Some(b"\"b\";q=4;w=60")).is_err());
    // One use more is lent.
    assert_eq!(check_head(|reply| reply.rate_limit_policy = Some(b"\"b\";q=6;w=60")), Ok(()));
    assert!(check_head(|reply| reply.rate_limit_policy = None).is_err());
}

proptest! {
    /// Whatever a server sends is accepted or reported as a fault.
    #[test]
    fn a_damaged_answer_makes_nothing_panic(
        words in prop_oneof![Just(""), Just("--json"), Just("--resp")],
        status in prop_oneof![Just(200u16), Just(503)],
        damage in proptest::collection::vec((any::<Index>(), any::<u8>(), 0usize..3), 0..4),
    ) {
        let (kind, body) = match words {
            "--json" => ("json", r#"{"items":[{"biz":"b","key":"k0","limited":false}]}"#.to_owned()),
            _ => ("xml", format!("<response><item biz=\"b\" key=\"k0\" {ONE}/></response>\n")),
        };
        let over_http = format!(
            "HTTP/1.1 {status} OK\r\nContent-Type: application/{kind}\r\n\
             Cache-Control: no-store\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let over_resp = "*4\r\n$7\r\nlimited\r\n:0\r\n$6\r\nshared\r\n:1\r\n".to_owned();
        let mut bytes = if words == "--resp" { over_resp } else { over_http }.into_bytes();
        for (place, byte, cut) in damage {
            let place = place.index(bytes.len());
            let end = bytes.len().min(place + cut);
            bytes.splice(place..end, [byte]);
        }
        let mut checker = checker(words);
        if let Ok(Some(reply)) = Reply::read(checker.format, &bytes) {
            prop_assert!(reply.bytes <= bytes.len());
            let mut outcomes = 0;
            let call = call(words);
            let asked = Asked { keys: &[0], first: 0, call: &call, again: false };
            let checked = checker.check(&reply, asked, |_| outcomes += 1);
            prop_assert!(checked.is_err() || outcomes == 1);
        }
    }
}
