//! What calls bring, repeat and hold: the settings of map.xml that allow it, and every fault of
//! one.

use super::{faults, good, parse};
use crate::{Biz, Holds, Limit, OnLapse, Once, PerCall, Scope};

const DAY_MS: u64 = 86_400_000;
const SMALL: &str = "<srv><http max-atomic-items='8'/></srv>";

/// A map whose second line has one biz with these settings and this content.
fn map(settings: &str, content: &str) -> String {
    format!(
        "<map><group name='g' files='1' key-nodes='1'/>\n\
         <biz id='1' name='a' key='string' {settings}>{content}</biz></map>"
    )
}

fn biz(settings: &str, content: &str) -> Biz {
    good(SMALL, &map(settings, content)).map.bizs[0].clone()
}

/// The limit that is read from these settings.
#[track_caller]
fn limit(settings: &str) -> Limit {
    biz("", &format!("<limit {settings}/>")).limits[0].clone()
}

#[track_caller]
fn faulty(settings: &str, content: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|fault| format!("map.xml:2:{fault}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    faults(parse(SMALL, &map(settings, content)), &expected);
}

/// Checks the only fault of a limit with these settings. `column` counts from its first setting.
#[track_caller]
fn one_fault(settings: &str, column: usize, expected: &str) {
    let column = column + "<biz id='1' name='a' key='string' ><limit ".len();
    faulty("", &format!("<limit {settings}/>"), &[&format!("{column}: {expected}")]);
}

#[test]
fn a_call_brings_at_most_the_max_in_a_day_unless_map_xml_says_more() {
    for (settings, most, max_period_ms) in [
        ("policy='interval' interval='60s' max='5'", 5, DAY_MS),
        ("policy='interval' interval='7d' max='5' most='5'", 5, 7 * DAY_MS),
        ("policy='interval' interval='60s' max='5' most='9007199254740991'", (1 << 53) - 1, DAY_MS),
        ("policy='interval' interval='60s' max='0' max-period='60s'", 0, 60_000),
        ("policy='sliding' interval='60s' max='5' most='4096'", 4096, DAY_MS),
        ("policy='sliding' interval='45d' max='5'", 5, 45 * DAY_MS),
        ("policy='sliding' interval='60s' max='5' max-period='45d'", 5, 45 * DAY_MS),
        ("policy='sliding-counter' interval='2d' max='5' most='7'", 7, 2 * DAY_MS),
        ("policy='calendar' unit='minute' max='5'", 5, DAY_MS),
        ("policy='calendar' unit='day' max='5' most='8'", 8, 2 * DAY_MS),
        ("policy='calendar' unit='month' max='5'", 5, 32 * DAY_MS),
        ("policy='calendar' unit='hour' max='5' max-period='367d'", 5, 367 * DAY_MS),
        ("policy='token' rate='10/s' burst='20'", 20, DAY_MS),
        ("policy='token' rate='10/s' most='213503982334'", 213_503_982_334, DAY_MS),
        ("policy='token' rate='10/s' max-period='1ms'", 10, 1),
        ("policy='gcra' rate='10/s' burst='20'", u64::MAX, DAY_MS),
        ("policy='gcra' rate='10/s' burst='20' most='20' max-period='1h'", 20, 3_600_000),
        ("policy='total' max='5' most='9'", 9, 0),
        ("policy='distinct' precision='exact' max='5'", 5, 0),
        ("policy='distinct' precision='exact' max='5' most='256' unit='day'", 256, 0),
    ] {
        let own = settings.replace(" most=", " per-call='true' most=");
        let own = match own.contains("per-call") {
            true => own,
            false => format!("{own} per-call='true'"),
        };
        let expected = PerCall { most, max_period_ms };
        assert_eq!(limit(&own).per_call, Some(expected), "{settings}");
    }
    assert_eq!(limit("policy='total' max='5'").per_call, None);
    assert_eq!(limit("policy='total' max='5' per-call='false'").per_call, None);
}

#[test]
fn faulty_bounds_of_calls() {
    const LESS: &str = "; the max of the limit itself is 5";
    const SUCH: &str = "such as 250ms, 60s, 15m, 24h or 7d";
    let whole = |from: u64, to: u64| format!("expected a whole number from {from} to {to}");
    for (settings, column, found, expected) in [
        (
            "policy='total' max='5' per-call='yes'",
            34,
            "per-call=\"yes\"",
            "expected one of true, false".to_owned(),
        ),
        (
            "policy='total' max='5' per-call='true' most='4'",
            46,
            "most=\"4\"",
            whole(5, (1 << 53) - 1) + LESS,
        ),
        (
            "policy='interval' interval='1m' max='5' per-call='true' most='9007199254740992'",
            63,
            "most=\"9007199254740992\"",
            whole(5, (1 << 53) - 1) + LESS,
        ),
        (
            "policy='sliding' interval='1m' max='5' per-call='true' most='4097'",
            62,
            "most=\"4097\"",
            whole(5, 4096) + LESS,
        ),
        (
            "policy='distinct' precision='exact' max='5' per-call='true' most='257'",
            67,
            "most=\"257\"",
            whole(5, 256) + LESS,
        ),
        (
            "policy='token' rate='5/s' burst='20' per-call='true' most='5'",
            60,
            "most=\"5\"",
            whole(20, 213_503_982_334) + "; the burst of the limit itself is 20",
        ),
        (
            "policy='gcra' rate='5/s' per-call='true' most='213503982335'",
            48,
            "most=\"213503982335\"",
            whole(5, 213_503_982_334) + "; the burst of the limit itself is 5",
        ),
        (
            "policy='interval' interval='90s' max='5' per-call='true' max-period='60s'",
            70,
            "max-period=\"60s\"",
            format!(
                "expected a duration from 90s to 9007199254740991ms, {SUCH}; a window of the \
                 limit itself takes up to 90s"
            ),
        ),
        (
            "policy='sliding' interval='1m' max='5' per-call='true' max-period='46d'",
            68,
            "max-period=\"46d\"",
            format!(
                "expected a duration from 1m to 45d, {SUCH}; a window of the limit itself takes \
                 up to 1m"
            ),
        ),
        (
            "policy='sliding-counter' interval='1d' max='5' per-call='true' max-period='23h'",
            76,
            "max-period=\"23h\"",
            format!(
                "expected a duration from 1d to 9007199254740991ms, {SUCH}; a window of the limit \
                 itself takes up to 1d"
            ),
        ),
        (
            "policy='calendar' unit='day' max='5' per-call='true' max-period='1d'",
            66,
            "max-period=\"1d\"",
            format!(
                "expected a duration from 2d to 9007199254740991ms, {SUCH}; a window of the limit \
                 itself takes up to 2d"
            ),
        ),
        (
            "policy='gcra' rate='1/s' per-call='true' max-period='0s'",
            54,
            "max-period=\"0s\"",
            format!("expected a duration from 1ms to 9007199254740991ms, {SUCH}"),
        ),
        (
            "policy='gcra' rate='1/s' max-period='1h'",
            26,
            "attribute max-period without per-call=\"true\"",
            "expected per-call=\"true\", or no max-period".to_owned(),
        ),
        (
            "policy='total' max='5' most='9' per-call='false'",
            24,
            "attribute most without per-call=\"true\"",
            "expected per-call=\"true\", or no most".to_owned(),
        ),
        (
            "policy='distinct' per-call='true'",
            19,
            "attribute per-call with a sketch",
            "expected precision=\"exact\" with it: a sketch refuses nothing".to_owned(),
        ),
        (
            "policy='distinct' max='5' on-exceed='x' per-call='true' most='9'",
            41,
            "attribute per-call with a sketch",
            "expected precision=\"exact\" with it: a sketch refuses nothing".to_owned(),
        ),
    ] {
        one_fault(settings, column, &format!("found {found}, {expected}"));
    }
    let both = "<limit policy='gcra' rate='1/s' most='9' max-period='1h'/>";
    faulty(
        "",
        both,
        &[
            "68: found attribute most without per-call=\"true\", expected per-call=\"true\", or no most",
            "77: found attribute max-period without per-call=\"true\", expected per-call=\"true\", or no max-period",
        ],
    );
}

#[test]
fn settings_of_calls_say_which_policies_have_them() {
    const TAKING: &str = "expected it with policy=\"interval\", \"calendar\", \"sliding\", \
                          \"sliding-counter\", \"token\", \"gcra\", \"total\" or \"distinct\" only";
    const WINDOWS: &str = "expected it with policy=\"interval\", \"calendar\", \"sliding\", \
                           \"sliding-counter\", \"token\" or \"gcra\" only";
    for (settings, column, name, policy, expected) in [
        ("policy='count' per-call='true'", 16, "per-call", "count", TAKING),
        ("policy='count' per-call='false'", 16, "per-call", "count", TAKING),
        ("policy='count' most='9'", 16, "most", "count", TAKING),
        ("policy='concurrent' max='9' per-call='true'", 29, "per-call", "concurrent", TAKING),
        ("policy='concurrent' max='9' most='10'", 29, "most", "concurrent", TAKING),
        ("policy='count' max-period='1d'", 16, "max-period", "count", WINDOWS),
        (
            "policy='total' max='9' per-call='true' max-period='1d'",
            40,
            "max-period",
            "total",
            WINDOWS,
        ),
        ("policy='total' max='9' max-period='x'", 24, "max-period", "total", WINDOWS),
        (
            "policy='distinct' precision='exact' max='9' unit='day' per-call='true' max-period='1d'",
            72,
            "max-period",
            "distinct",
            WINDOWS,
        ),
    ] {
        let found = format!("found attribute {name} with policy=\"{policy}\", {expected}");
        one_fault(settings, column, &found);
    }
}

/// A log is as long as calls may need, and so is a set.
#[test]
fn nodes_have_room_for_what_calls_may_bring() {
    for (settings, bytes) in [
        ("policy='sliding' interval='60s' max='5' per-call='true' most='200'", 16 + 4 * 200),
        ("policy='distinct' precision='exact' max='5' per-call='true' most='200'", 16 + 8 * 200),
        ("policy='interval' interval='60s' max='5' per-call='true' most='200'", 16),
        ("policy='calendar' unit='day' max='5' per-call='true' most='200'", 32),
        ("policy='sliding-counter' interval='60s' max='5' per-call='true'", 40),
        ("policy='token' rate='9/s' per-call='true'", 16),
        ("policy='gcra' rate='9/s' per-call='true'", 16),
        ("policy='total' max='5' per-call='true' most='200'", 8),
    ] {
        let biz = biz("", &format!("<limit {settings}/>"));
        assert_eq!(biz.node_bytes(Scope::Key, 24), 48 + bytes, "{settings}");
    }
    let log = "<limit policy='sliding' interval='60s' max='5' per-call='true' most='200'/>";
    let longer = biz("", &format!("{log}<override key='b' limit='1' max='300'/>"));
    assert_eq!(longer.ring_uses(Scope::Key), Some(300));
}

#[test]
fn the_limits_that_take_numbers_of_a_call_are_bounded() {
    let limits = |taking: usize| {
        let own = "<limit policy='total' max='1'/>";
        own.to_owned() + &"<limit policy='total' max='1' per-call='true'/>".repeat(taking)
    };
    assert_eq!(biz("", &limits(8)).limits.len(), 9);
    faulty(
        "",
        &limits(9),
        &["473: found per-call in more than 8 limits, expected it in at most 8 limits of a biz"],
    );
}

#[test]
fn places_may_be_limited_for_each_key_only() {
    let of = limit("policy='concurrent' max='20' ban='1m'");
    assert_eq!((of.policy.max(), of.ban_ms, of.state_words()), (Some(20), Some(60_000), 0));
    limit("policy='concurrent' max='0' scope='key' on-exceed='slow'");
    one_fault(
        "policy='concurrent' max='20' scope='biz'",
        37,
        "found scope=\"biz\" with policy=\"concurrent\", expected scope=\"key\"; for a maximum over \
         all calls, a key that all of them share",
    );
    one_fault(
        "policy='concurrent' max='9007199254740992'",
        26,
        "found max=\"9007199254740992\", expected a whole number from 0 to 9007199254740991",
    );
    let column = "<biz id='1' name='a' key='string' ><".len();
    faulty(
        "",
        "<limit policy='concurrent'/>",
        &[&format!(
            "{column}: found <limit> without max, expected max: a whole number from 0 to \
             9007199254740991"
        )],
    );
}

#[test]
fn ids_of_retries_are_read() {
    let total = "<limit policy='total' max='1'/>";
    let of = |settings: &str| biz(settings, total).once;
    let once = |ids, for_ms| Some(Once { ids, for_ms });
    assert_eq!(of(""), None);
    assert_eq!(of("once='1'"), once(1, 60_000));
    assert_eq!(of("once='8' once-for='1s'"), once(8, 1000));
    assert_eq!(of("once='64' once-for='1h'"), once(64, 3_600_000));
    for (settings, expected) in [
        ("once='0'", "41: found once=\"0\", expected a whole number from 1 to 64"),
        ("once='65'", "41: found once=\"65\", expected a whole number from 1 to 64"),
        (
            "once='8' once-for='2h'",
            "54: found once-for=\"2h\", expected a duration from 1s to 1h, such as 250ms, 60s, 15m, 24h or 7d",
        ),
        (
            "once='8' once-for='999ms'",
            "54: found once-for=\"999ms\", expected a duration from 1s to 1h, such as 250ms, 60s, 15m, 24h or 7d",
        ),
        ("once-for='1m'", "35: found attribute once-for without once, expected it with once only"),
    ] {
        faulty(settings, total, &[expected]);
    }
}

#[test]
fn holds_are_read() {
    let total = "<limit policy='total' max='1'/>";
    let places = "<limit policy='concurrent' max='20'/>";
    let holds = |entries, ttl_ms, on_lapse| Some(Holds { entries, ttl_ms, on_lapse });
    for (settings, limits, expected) in [
        ("", total.to_owned(), None),
        ("holds='16'", total.to_owned(), holds(16, 60_000, OnLapse::Keep)),
        (
            "holds='1' hold-ttl='1s' on-lapse='free'",
            total.to_owned(),
            holds(1, 1000, OnLapse::Free),
        ),
        (
            "holds='1024' hold-ttl='7d' on-lapse='keep'",
            total.to_owned(),
            holds(1024, 7 * DAY_MS, OnLapse::Keep),
        ),
        ("", places.to_owned(), holds(20, 60_000, OnLapse::Keep)),
        ("hold-ttl='30s' on-lapse='keep'", places.to_owned(), holds(20, 30_000, OnLapse::Keep)),
        ("holds='5'", places.to_owned(), holds(5, 60_000, OnLapse::Keep)),
        ("", format!("{places}{}", places.replace("20", "30")), holds(30, 60_000, OnLapse::Keep)),
        (
            "",
            format!("{total}{places}<override key='b' limit='2' max='50'/>"),
            holds(50, 60_000, OnLapse::Keep),
        ),
        (
            "",
            format!("{total}{places}<override key='b' limit='1' max='50'/>"),
            holds(20, 60_000, OnLapse::Keep),
        ),
        ("", places.replace("20", "0"), holds(1, 60_000, OnLapse::Keep)),
        ("", places.replace("20", "1025"), holds(1024, 60_000, OnLapse::Keep)),
    ] {
        assert_eq!(biz(settings, &limits).holds, expected, "{settings} {limits}");
    }
    let beside = "<limit policy='interval' interval='1m' max='1'/>
        <limit policy='calendar' unit='day' max='1'/>
        <limit policy='sliding-counter' interval='1m' max='1'/>
        <limit policy='token' rate='1/s'/><limit policy='gcra' rate='1/s'/>
        <limit policy='total' max='1'/><limit policy='count'/>
        <limit policy='total' scope='biz' max='1'/>";
    assert!(biz("holds='4'", beside).holds.is_some());
    let sliding = "<limit policy='sliding' interval='1m' max='1'/>";
    assert!(biz("", &format!("{beside}{sliding}{places}")).is_concurrent());
}

#[test]
fn faulty_holds() {
    let total = "<limit policy='total' max='1'/>";
    let places = "<limit policy='concurrent' max='20'/>";
    let sliding = "<limit policy='sliding' interval='1m' max='1'/>";
    let distinct = "<limit policy='distinct'/>";
    const NEED: &str = "expected it with holds or a limit of policy=\"concurrent\" only";
    const BESIDE: &str = "expected limits of policy=\"interval\", \"calendar\", \
                          \"sliding-counter\", \"token\", \"gcra\", \"total\" and \"count\" only, \
                          or one of policy=\"concurrent\"";
    for (settings, limits, expected) in [
        (
            "holds='0'",
            total.to_owned(),
            "42: found holds=\"0\", expected a whole number from 1 to 1024".to_owned(),
        ),
        (
            "holds='1025'",
            places.to_owned(),
            "42: found holds=\"1025\", expected a whole number from 1 to 1024".to_owned(),
        ),
        (
            "holds='9' hold-ttl='8d'",
            total.to_owned(),
            "55: found hold-ttl=\"8d\", expected a duration from 1s to 7d, such as 250ms, 60s, 15m, 24h or 7d".to_owned(),
        ),
        (
            "holds='9' on-lapse='drop'",
            total.to_owned(),
            "55: found on-lapse=\"drop\", expected one of keep, free".to_owned(),
        ),
        (
            "hold-ttl='1m'",
            total.to_owned(),
            format!("35: found attribute hold-ttl without holds, {NEED}"),
        ),
        (
            "on-lapse='keep'",
            total.to_owned(),
            format!("35: found attribute on-lapse without holds, {NEED}"),
        ),
        (
            "on-lapse='free'",
            places.to_owned(),
            "45: found on-lapse=\"free\" with policy=\"concurrent\", expected no on-lapse: there a \
             hold that lapses always frees its places"
                .to_owned(),
        ),
        (
            "holds='9'",
            format!("{total}{sliding}"),
            format!("42: found holds=\"9\" beside policy=\"sliding\", {BESIDE}"),
        ),
        (
            "holds='9'",
            format!("{distinct}{total}"),
            format!("42: found holds=\"9\" beside policy=\"distinct\", {BESIDE}"),
        ),
        (
            "",
            format!("{places}{distinct}"),
            "88: found policy=\"distinct\" beside policy=\"concurrent\", expected another biz for \
             it: what is held has no member"
                .to_owned(),
        ),
    ] {
        faulty(settings, &limits, &[&expected]);
    }
    // A limit with a fault may be a `concurrent` one, so only its own fault is noted.
    for settings in ["hold-ttl='1m'", "holds='9'"] {
        let limits = format!("{sliding}<limit policy='concurent' max='20'/>");
        let found = parse(SMALL, &map(settings, &limits)).unwrap_err();
        assert_eq!(found.count(), 1, "{found}");
    }
}

#[test]
fn the_bytes_of_ids_and_holds_are_named() {
    let needs = |settings: &str, limits: &str| {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='1' node-size='64'/>\n\
             <biz id='1' name='a' key='ip' {settings}>{limits}</biz></map>"
        );
        let found = parse(SMALL, &map).unwrap_err().to_string();
        found.split_once(" needs ").unwrap_or_else(|| panic!("{found}")).1.to_owned()
    };
    let day = "<limit policy='calendar' unit='day' max='1' history='1'/>";
    assert_eq!(
        needs("once='8' holds='16'", day),
        "600 bytes (header 24, key 24, limit 1 (calendar) 16, history of 1 windows of limit 1 24, \
         ids of 8 retries 112, table of 16 holds 400)"
    );
    let places = "<limit policy='concurrent' max='1024' ban='1m'/>\
                  <limit policy='sliding' interval='1m' max='2'/>";
    assert_eq!(
        needs("", places),
        "24,672 bytes (header 24, key 24, limit 1 (concurrent) in the holds, limit 2 (sliding) in \
         the ring, ban 8, table of 1,024 holds 24,592, ring of 2 uses 24)"
    );
    // The ids are in the record of the key, which exists for them.
    let total = "<limit policy='total' scope='biz' max='1'/>";
    assert_eq!(
        needs("once='64'", total),
        "832 bytes (header 24, key 24, ids of 64 retries 784) for each key and 56 bytes (header \
         24, key 24, limit 1 (total) 8) for the biz"
    );
    let long = "<limit policy='sliding' interval='1m' max='4096'/>";
    let found = parse(SMALL, &map("", &format!("{places}{long}"))).unwrap_err().to_string();
    assert!(
        found.contains("expected fewer limits or holds: node-size is at most 32768"),
        "{found}"
    );
}
