//! Limits: the accepted settings of every policy, and every fault of one.

use jiff::tz::TimeZone;

use super::super::{
    Calendar, Concurrent, Count, Distinct, DistinctCounting, Gcra, Interval, Limit, Policy, Scope,
    Sliding, SlidingCounter, Token, Total, Turns, Unit, Weight,
};
use super::{faults, good, map_faults, parse};

const GROUP: &str = "<map><group name='g' files='1' key-nodes='8' node-size='128'/>";
const USES: &str = "a whole number from 0 to 9007199254740991";
const DURATION: &str =
    "a duration from 1ms to 9007199254740991ms, such as 250ms, 60s, 15m, 24h or 7d";
const RATE: &str = "a rate such as 10/s: a whole number, / and ms, s, m, h or d";
const NINE: &str = "it with policy=\"interval\", \"calendar\", \"sliding\", \"sliding-counter\", \"token\", \"gcra\", \"total\", \"distinct\" or \"concurrent\" only";

/// Checks the only fault of a limit with these settings. `expected` begins with the column.
#[track_caller]
fn one_fault(settings: &str, expected: &str) {
    let map = format!("{GROUP}\n<biz id='1' name='a' key='ip'>\n<limit {settings}/></biz></map>");
    faults(parse("<srv/>", &map), &[&format!("map.xml:3:{expected}")]);
}

/// The limit that is read from these settings.
#[track_caller]
fn limit(settings: &str, children: &str) -> Limit {
    let map = format!(
        "<map><group name='g' files='1' key-nodes='1' node-size='16448'/>\
         <biz id='1' name='a' key='ip'><limit {settings}>{children}</limit></biz></map>"
    );
    let conf = good("<srv><http max-atomic-items='15'/></srv>", &map);
    conf.map.bizs[0].limits[0].clone()
}

fn turns(unit: Unit, zone: &str, at_minutes: u16) -> Turns {
    Turns { unit, zone: TimeZone::get(zone).unwrap(), at_minutes }
}

#[test]
fn every_policy_is_read() {
    let day = turns(Unit::Day, "Asia/Shanghai", 240);
    for (settings, expected) in [
        (
            "policy='interval' interval='60s' max='5' debt='3'",
            Policy::Interval(Interval { interval_ms: 60_000, max: 5, debt: 3 }),
        ),
        (
            "policy='calendar' unit='day' tz='Asia/Shanghai' at='04:00' max='3' debt='2'",
            Policy::Calendar(Calendar { turns: day.clone(), max: 3, debt: 2 }),
        ),
        (
            "policy='calendar' unit='minute' max='3'",
            Policy::Calendar(Calendar { turns: turns(Unit::Minute, "UTC", 0), max: 3, debt: 0 }),
        ),
        (
            "policy='calendar' unit='hour' tz='asia/kathmandu' max='3'",
            Policy::Calendar(Calendar {
                turns: turns(Unit::Hour, "Asia/Kathmandu", 0),
                max: 3,
                debt: 0,
            }),
        ),
        (
            "policy='calendar' unit='week' max='3' at='23:59'",
            Policy::Calendar(Calendar { turns: turns(Unit::Week, "UTC", 1439), max: 3, debt: 0 }),
        ),
        (
            "policy='calendar' unit='month' max='3' at='00:00'",
            Policy::Calendar(Calendar { turns: turns(Unit::Month, "UTC", 0), max: 3, debt: 0 }),
        ),
        (
            "policy='calendar' unit='year' max='3' tz='UTC'",
            Policy::Calendar(Calendar { turns: turns(Unit::Year, "UTC", 0), max: 3, debt: 0 }),
        ),
        (
            "policy='sliding' interval='24h' max='50'",
            Policy::Sliding(Sliding { interval_ms: 86_400_000, max: 50 }),
        ),
        (
            "policy='sliding-counter' interval='90d' max='5000'",
            Policy::SlidingCounter(SlidingCounter { interval_ms: 7_776_000_000, max: 5000 }),
        ),
        (
            "policy='token' rate='10/s' burst='20'",
            Policy::Token(Token { rate: 10, per_ms: 1000, burst: 20 }),
        ),
        (
            "policy='gcra' rate='30/m' burst='16'",
            Policy::Gcra(Gcra { rate: 30, per_ms: 60_000, burst: 16 }),
        ),
        (
            "policy='gcra' rate='1000000/ms' burst='213503982334'",
            Policy::Gcra(Gcra { rate: 1_000_000, per_ms: 1, burst: 213_503_982_334 }),
        ),
        (
            "policy='token' rate='500/d'",
            Policy::Token(Token { rate: 500, per_ms: 86_400_000, burst: 500 }),
        ),
        ("policy='total' max='7'", Policy::Total(Total { max: 7 })),
        ("policy='concurrent' max='20'", Policy::Concurrent(Concurrent { max: 20 })),
        ("policy='count'", Policy::Count(Count { turns: None })),
        (
            "policy='count' unit='day' tz='Asia/Shanghai' at='04:00'",
            Policy::Count(Count { turns: Some(day) }),
        ),
    ] {
        assert_eq!(limit(settings, ""), Limit::new(Scope::Key, expected), "{settings}");
    }
}

#[test]
fn what_stands_on_top_is_read() {
    let read = limit("policy='calendar' unit='day' max='1' history='366'", "");
    assert_eq!((read.history, read.history_words()), (366, 185));
    let read = limit("policy='count' unit='day' history='1'", "");
    assert_eq!((read.history, read.history_words()), (1, 3));
    assert_eq!(limit("policy='count' unit='day'", "").history_words(), 0);
    let read = limit("policy='total' max='1' scope='biz' on-exceed='slow.down_2-x'", "");
    assert_eq!((read.scope, read.advice.as_deref()), (Scope::Biz, Some("slow.down_2-x")));
    let read = limit("policy='token' rate='1/ms' ban='10m' on-exceed='refuse'", "");
    assert_eq!((read.advice, read.ban_ms), (None, Some(600_000)), "refuse is the default");
    let points = "<weight at='0' value='1'/><weight at='4' value='0.3'/>
                  <weight at='9007199254740991' value='1000'/>";
    let expected = [(0, 1000), (4, 300), ((1 << 53) - 1, 1_000_000)];
    let expected = expected.map(|(at, thousandths)| Weight { at, thousandths });
    assert_eq!(limit("policy='count'", points).weights, expected);
}

#[test]
fn faulty_policies() {
    const POLICIES: &str = "interval, calendar, sliding, sliding-counter, token, gcra, total, count, distinct, concurrent";
    one_fault(
        "max='1'",
        &format!("1: found <limit> without policy, expected policy: one of {POLICIES}"),
    );
    one_fault(
        "policy='intervall' max='1'",
        &format!("16: found policy=\"intervall\", expected one of {POLICIES} (nearest: interval)"),
    );
    one_fault(
        "policy='total' maxx='1' max='2'",
        "23: found attribute maxx of <limit>, expected one of policy, scope, max, interval, unit, tz, at, history, rate, burst, debt, ban, on-exceed, per-call, most, max-period, precision (nearest: max)",
    );
    one_fault(
        "policy='interval' interval='1m' max='1' scope='user'",
        "55: found scope=\"user\", expected one of key, biz",
    );
    // The other settings can still be wrong, but none is reported as missing.
    let map = "<biz id='1' name='a' key='ip'>\n<limit policy='x' interval='1' max='x' debt='x' \
               unit='x' tz='x' at='x' rate='x' burst='x' ban='x' on-exceed=' '\n\
               per-call='x' most='x' max-period='x'>\n\
               <weight at='x' value='x'/></limit></biz>";
    let found = parse(
        "<srv/>",
        &format!("<map><group name='g' files='1' key-nodes='8' node-size='64'/>\n{map}</map>"),
    );
    assert_eq!(found.unwrap_err().iter().count(), 16);
}

// Shows: clear-messages.
#[test]
fn names_that_others_give_to_policies_are_answered_with_ours() {
    let of = |name: &str| {
        let map = format!(
            "{GROUP}\n<biz id='1' name='a' key='ip'>\n<limit policy='{name}' max='5'/></biz></map>"
        );
        parse("<srv/>", &map).expect_err("refused").to_string()
    };
    for (name, ours) in [
        (
            "fixed-window",
            "expected policy=\"interval\", whose window opens at the first use, or policy=\"calendar\"",
        ),
        (
            "Sliding_Window",
            "expected policy=\"sliding\", which is exact, or policy=\"sliding-counter\"",
        ),
        ("token bucket", "expected policy=\"token\" (all: interval, calendar, "),
        ("leaky-bucket", "expected policy=\"gcra\""),
        ("In-Flight", "expected policy=\"concurrent\", which counts what calls hold"),
        ("slidng", "(nearest: sliding)"),
    ] {
        assert!(of(name).contains(ours), "{}", of(name));
    }
}

#[test]
fn distinct_is_read() {
    let day = || Some(turns(Unit::Day, "UTC", 0));
    let sketch = |precision, max| DistinctCounting::Sketch { precision, max };
    for (settings, turns, counting) in [
        ("policy='distinct'", None, sketch(12, None)),
        ("policy='distinct' unit='day' precision='14'", day(), sketch(14, None)),
        ("policy='distinct' precision='8' max='0' on-exceed='x'", None, sketch(8, Some(0))),
        ("policy='distinct' precision='9' on-exceed='refuse'", None, sketch(9, None)),
        (
            "policy='distinct' precision='exact' max='1' unit='day'",
            day(),
            DistinctCounting::Exact { max: 1 },
        ),
        (
            "policy='distinct' max='256' precision='exact' ban='1m'",
            None,
            DistinctCounting::Exact { max: 256 },
        ),
    ] {
        let read = limit(settings, "");
        assert_eq!(read.policy, Policy::Distinct(Distinct { turns, counting }), "{settings}");
    }
}

#[test]
fn faults_of_distinct() {
    for (settings, expected) in [
        (
            "policy='distinct' precision='7'",
            "37: found precision=\"7\", expected a whole number from 8 to 14, or exact",
        ),
        (
            "policy='distinct' precision='012'",
            "37: found precision=\"012\", expected a whole number from 8 to 14, or exact",
        ),
        (
            "policy='distinct' precision='exact' max='257'",
            "49: found max=\"257\", expected a whole number from 1 to 256",
        ),
        (
            "policy='distinct' max='5'",
            "26: found attribute max with a sketch that advises nothing, expected \
             on-exceed=\"WORD\" or precision=\"exact\" with it, or no max",
        ),
        (
            "policy='distinct' ban='5m'",
            "26: found attribute ban with a sketch, expected precision=\"exact\" with it: a sketch \
             refuses nothing",
        ),
        (
            "policy='distinct' precision='exact' max='2' tz='UTC'",
            "52: found attribute tz without unit, expected it with unit only",
        ),
    ] {
        one_fault(settings, expected);
    }
}

#[test]
fn a_set_stands_alone_in_its_scope() {
    let beside = |second: &str| {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='1' node-size='640'/>\
             <biz id='1' name='a' key='ip'>\n\
             <limit policy='distinct' precision='exact' max='5'/>\n<limit {second}/></biz></map>"
        );
        parse("<srv/>", &map)
    };
    const EXPECTED: &str = "expected another biz for it: of limits that keep each member or each \
                            use, a biz and scope has one set or one ring";
    for second in
        ["policy='distinct' precision='exact' max='2'", "policy='sliding' interval='1m' max='3'"]
    {
        let found = "found a limit beside one with precision=\"exact\"";
        faults(beside(second), &[&format!("map.xml:3:16: {found}, {EXPECTED}")]);
    }
    for second in [
        "policy='distinct' precision='8'",
        "policy='distinct' precision='exact' max='2' scope='biz'",
        "policy='sliding' interval='1m' max='3' scope='biz'",
    ] {
        assert!(beside(second).is_ok(), "{second}");
    }
}

#[test]
fn settings_of_other_policies_say_whose_they_are() {
    for (settings, expected) in [
        (
            "policy='total' max='1' interval='1m'",
            "31: found attribute interval with policy=\"total\", expected it with policy=\"interval\", \"sliding\" or \"sliding-counter\" only",
        ),
        (
            "policy='sliding' interval='1m' max='1' debt='1'",
            "47: found attribute debt with policy=\"sliding\", expected it with policy=\"interval\" or \"calendar\" only",
        ),
        (
            "policy='token' rate='1/s' max='1'",
            "34: found attribute max with policy=\"token\", expected it with policy=\"interval\", \"calendar\", \"sliding\", \"sliding-counter\", \"total\", \"distinct\" or \"concurrent\" only",
        ),
        (
            "policy='interval' interval='1m' max='1' unit='day'",
            "48: found attribute unit with policy=\"interval\", expected it with policy=\"calendar\", \"count\" or \"distinct\" only",
        ),
        (
            "policy='sliding-counter' interval='1m' max='1' tz='UTC'",
            "55: found attribute tz with policy=\"sliding-counter\", expected it with policy=\"calendar\", \"count\" or \"distinct\" only",
        ),
        (
            "policy='total' max='1' at='04:00'",
            "31: found attribute at with policy=\"total\", expected it with policy=\"calendar\", \"count\" or \"distinct\" only",
        ),
        (
            "policy='calendar' unit='day' max='1' rate='1/s'",
            "45: found attribute rate with policy=\"calendar\", expected it with policy=\"token\" or \"gcra\" only",
        ),
        (
            "policy='interval' interval='1m' max='1' burst='1'",
            "48: found attribute burst with policy=\"interval\", expected it with policy=\"token\" or \"gcra\" only",
        ),
        (
            "policy='gcra' rate='1/s' max='1'",
            "33: found attribute max with policy=\"gcra\", expected it with policy=\"interval\", \"calendar\", \"sliding\", \"sliding-counter\", \"total\", \"distinct\" or \"concurrent\" only",
        ),
        (
            "policy='count' ban='1m'",
            &format!("23: found attribute ban with policy=\"count\", expected {NINE}"),
        ),
        (
            "policy='count' on-exceed='captcha'",
            &format!("23: found attribute on-exceed with policy=\"count\", expected {NINE}"),
        ),
        (
            "policy='count' ban='soon'",
            &format!("23: found attribute ban with policy=\"count\", expected {NINE}"),
        ),
        (
            "policy='count' max='1'",
            "23: found attribute max with policy=\"count\", expected it with policy=\"interval\", \"calendar\", \"sliding\", \"sliding-counter\", \"total\", \"distinct\" or \"concurrent\" only",
        ),
    ] {
        one_fault(settings, expected);
    }
}

#[test]
fn settings_that_a_policy_needs() {
    for (settings, name, expected) in [
        ("policy='interval' max='1'", "interval", DURATION),
        ("policy='interval' interval='1m'", "max", USES),
        ("policy='calendar' unit='day'", "max", USES),
        ("policy='calendar' max='1'", "unit", "one of minute, hour, day, week, month, year"),
        ("policy='sliding-counter' max='1'", "interval", DURATION),
        ("policy='sliding-counter' interval='1m'", "max", USES),
        ("policy='token' burst='1'", "rate", RATE),
        ("policy='total'", "max", USES),
        (
            "policy='sliding' max='1'",
            "interval",
            "a duration from 1ms to 45d, such as 250ms, 60s, 15m, 24h or 7d; beyond that policy=\"sliding-counter\"",
        ),
        (
            "policy='sliding' interval='1m'",
            "max",
            "a whole number from 0 to 4096; beyond that policy=\"sliding-counter\"",
        ),
    ] {
        let expected = format!("1: found <limit> without {name}, expected {name}: {expected}");
        one_fault(settings, &expected);
    }
}

#[test]
fn faulty_settings_of_windows() {
    for (settings, expected) in [
        (
            "policy='interval' interval='60' max='1'",
            &*format!("36: found interval=\"60\", expected {DURATION}"),
        ),
        (
            "policy='interval' interval='1m' max='9007199254740992'",
            &format!("45: found max=\"9007199254740992\", expected {USES}"),
        ),
        (
            "policy='interval' interval='1m' max='0' debt='1'",
            "54: found debt=\"1\" with max=\"0\", expected a max of at least 1, or no debt",
        ),
        (
            "policy='interval' interval='1m' max='1' debt='9007199254740991'",
            "54: found debt=\"9007199254740991\", which takes 9007199254740993 windows to pay back, expected at most 9007199254740991ms for that",
        ),
        (
            "policy='calendar' unit='day' max='0' debt='1'",
            "51: found debt=\"1\" with max=\"0\", expected a max of at least 1, or no debt",
        ),
        (
            "policy='calendar' unit='year' max='1' debt='996'",
            "52: found debt=\"996\", which takes 998 windows to pay back, expected at most 366000d for that",
        ),
        (
            "policy='calendar' unit='dya' max='1'",
            "32: found unit=\"dya\", expected one of minute, hour, day, week, month, year (nearest: day)",
        ),
        (
            "policy='calendar' unit='day' max='1' at='24:00'",
            "49: found at=\"24:00\", expected a time of day from 00:00 to 23:59",
        ),
        (
            "policy='calendar' unit='minute' max='1' at='00:00'",
            "48: found attribute at with unit=\"minute\", expected it with unit=\"day\", \"week\", \"month\" or \"year\" only",
        ),
        (
            "policy='count' unit='hour' at='00:00'",
            "35: found attribute at with unit=\"hour\", expected it with unit=\"day\", \"week\", \"month\" or \"year\" only",
        ),
        (
            "policy='count' tz='UTC'",
            "23: found attribute tz without unit, expected it with unit only",
        ),
        (
            "policy='count' at='04:00'",
            "23: found attribute at without unit, expected it with unit only",
        ),
        (
            "policy='count' history='3'",
            "23: found attribute history without unit, expected it with unit only",
        ),
        (
            "policy='count' unit='day' history='367'",
            "43: found history=\"367\", expected a whole number from 1 to 366",
        ),
        (
            "policy='calendar' unit='day' max='1' history='0'",
            "54: found history=\"0\", expected a whole number from 1 to 366",
        ),
        (
            "policy='interval' interval='1h' max='1' history='many'",
            "48: found attribute history with policy=\"interval\", expected it with policy=\"calendar\", \"count\" or \"distinct\" only",
        ),
        (
            "policy='sliding' interval='46d' max='1'",
            "35: found interval=\"46d\", expected a duration from 1ms to 45d, such as 250ms, 60s, 15m, 24h or 7d; beyond that policy=\"sliding-counter\"",
        ),
        (
            "policy='sliding' interval='1m' max='4097'",
            "44: found max=\"4097\", expected a whole number from 0 to 4096; beyond that policy=\"sliding-counter\"",
        ),
    ] {
        one_fault(settings, expected);
    }
}

#[test]
fn faulty_time_zones_have_near_names() {
    const EXPECTED: &str = "the IANA name of a time zone, such as Asia/Shanghai or UTC";
    let with = |zone: &str, near: &str| {
        one_fault(
            &format!("policy='calendar' unit='day' max='1' tz='{zone}'"),
            &format!("49: found tz=\"{zone}\", expected {EXPECTED}{near}"),
        );
    };
    with("Asia/Shangai", " (nearest: Asia/Shanghai)");
    with("Shanghai", " (nearest: Asia/Shanghai)");
    with("Europe/Berln", " (nearest: Europe/Berlin)");
    with("+08:00", "");
    with("", "");
    with("../../etc/passwd", "");
    with("Etc/Unknown", "");
}

#[test]
fn faulty_buckets() {
    for (settings, expected) in [
        ("policy='gcra' rate='10'", format!("28: found rate=\"10\", expected {RATE}")),
        (
            "policy='gcra' rate='1000001/ms'",
            "28: found rate=\"1000001/ms\", expected a whole number from 1 to 1000000 and /ms".into(),
        ),
        (
            "policy='gcra' rate='1/d' burst='53376'",
            "40: found burst=\"53376\", expected a whole number from 1 to 53375".into(),
        ),
        ("policy='token' rate='10'", format!("29: found rate=\"10\", expected {RATE}")),
        ("policy='token' rate='10/w'", format!("29: found rate=\"10/w\", expected {RATE}")),
        (
            "policy='token' rate='0/s'",
            "29: found rate=\"0/s\", expected a whole number from 1 to 213503982334601 and /s".into(),
        ),
        (
            "policy='token' rate='213503982334602/ms'",
            "29: found rate=\"213503982334602/ms\", expected a whole number from 1 to 213503982334 and /ms".into(),
        ),
        (
            "policy='token' rate='9007199254740992/d'",
            "29: found rate=\"9007199254740992/d\", expected a whole number from 1 to 9007199254740991 and /d".into(),
        ),
        (
            "policy='token' rate='10/s' burst='0'",
            "42: found burst=\"0\", expected a whole number from 1 to 213503982334".into(),
        ),
        (
            "policy='token' rate='10/s' burst='213503982335'",
            "42: found burst=\"213503982335\", expected a whole number from 1 to 213503982334".into(),
        ),
        (
            "policy='token' rate='1/d' burst='104249992'",
            "41: found burst=\"104249992\", expected a whole number from 1 to 104249991".into(),
        ),
        (
            "policy='token' rate='213503982335/s'",
            "29: found rate=\"213503982335/s\" without burst, expected burst: a whole number from 1 to 213503982334".into(),
        ),
    ] {
        one_fault(settings, &expected);
    }
}

#[test]
fn faulty_bans_and_advice() {
    one_fault(
        "policy='interval' interval='1m' max='1' ban='0s'",
        &format!("53: found ban=\"0s\", expected {DURATION}"),
    );
    one_fault(
        "policy='total' max='1' ban='1m' on-exceed='captcha'",
        "40: found on-exceed=\"captcha\" with a ban, expected one of them: a limit with on-exceed refuses nothing",
    );
    for word in ["", "a b", "é", &"x".repeat(33)] {
        one_fault(
            &format!("policy='total' max='1' on-exceed='{word}'"),
            &format!(
                "42: found on-exceed=\"{word}\", expected refuse, or a word of 1 to 32 of A-Z, a-z, 0-9, ., _ and -"
            ),
        );
    }
}

#[test]
fn faulty_weights() {
    const VALUE: &str = "a number from 0 to 1000 with at most 3 decimals, such as 0.3";
    for (weights, expected) in [
        ("<weight value='1'/>", format!("4:1: found <weight> without at, expected at: {USES}")),
        ("<weight at='1'/>", format!("4:1: found <weight> without value, expected value: {VALUE}")),
        (
            "<weight at='9007199254740992' value='1'/>",
            format!("4:13: found at=\"9007199254740992\", expected {USES}"),
        ),
        (
            "<weight at='1' value='0.1234'/>",
            format!("4:23: found value=\"0.1234\", expected {VALUE}"),
        ),
        (
            "<weight at='1' value='1000.001'/>",
            format!("4:23: found value=\"1000.001\", expected {VALUE}"),
        ),
        (
            "<weight at='2' value='1'/>\n<weight at='2' value='0'/>",
            "5:13: found at=\"2\" behind at=\"2\", expected more than that of line 4".into(),
        ),
        (
            "<weight at='2' value='1'/>\n<weight at='1' value='0'/>\n<weight at='3' value='0'/>",
            "5:13: found at=\"1\" behind at=\"2\", expected more than that of line 4".into(),
        ),
        (
            "<weight at='2' valeu='1' value='1'/>",
            "4:16: found attribute valeu of <weight>, expected one of at, value (nearest: value)"
                .into(),
        ),
        ("<wieght/>", "4:1: found <wieght> in <limit>, expected weight (nearest: weight)".into()),
    ] {
        let map = format!(
            "<biz id='1' name='a' key='ip'>\n<limit policy='total' max='1'>\n{weights}</limit></biz>"
        );
        map_faults(&map, &[&format!("map.xml:{expected}")]);
    }
    let weighted = "<limit policy='count'>\n<weight at='1' value='1'/></limit>";
    map_faults(
        &format!("<biz id='1' name='a' key='ip'>{weighted}{weighted}</biz>"),
        &[
            "map.xml:4:1: found <weight> in another limit, expected them in one limit of a biz (the first is in line 3)",
        ],
    );
}

#[test]
fn bounds_of_limits_are_taken() {
    for settings in [
        "policy='interval' interval='9007199254740991ms' max='0'",
        "policy='interval' interval='1ms' max='9007199254740991' debt='9007199254740991'",
        "policy='interval' interval='1ms' max='1' debt='9007199254740989'",
        "policy='calendar' unit='year' max='1' debt='995'",
        "policy='calendar' unit='minute' max='9007199254740991' debt='9007199254740991'",
        "policy='sliding' interval='45d' max='4096'",
        "policy='sliding' interval='1ms' max='0'",
        "policy='sliding-counter' interval='9007199254740991ms' max='9007199254740991'",
        "policy='token' rate='213503982334/ms'",
        "policy='token' rate='9007199254740991/d' burst='213503982334'",
        "policy='token' rate='1/d' burst='104249991'",
        "policy='total' max='0' ban='9007199254740991ms'",
        "policy='total' max='9007199254740991' on-exceed='abcdefghijklmnopqrstuvwxyz012345'",
    ] {
        limit(settings, "");
    }
}

/// Sliding limits take no bytes of their own in a node, so their number has a separate bound.
#[test]
fn limits_of_a_biz_are_bounded() {
    let group = "<group name='g' files='1' key-nodes='8' node-size='64'/>";
    let map = |limits: usize| {
        let limits = "<limit policy='sliding' interval='1s' max='0'/>".repeat(limits);
        format!("<map>{group}<biz id='1' name='a' key='ip'>{limits}</biz></map>")
    };
    good("<srv/>", &map(4096));
    faults(
        parse("<srv/>", &map(4097)),
        &["map.xml:1:192604: found another <limit>, expected at most 4096 of a biz"],
    );
}

#[test]
fn a_period_is_the_interval_or_the_time_in_which_a_bucket_fills() {
    for (settings, expected) in [
        ("policy='interval' interval='60s' max='5'", Some(60_000_000)),
        ("policy='sliding' interval='1s' max='5'", Some(1_000_000)),
        ("policy='sliding-counter' interval='1ms' max='5'", Some(1000)),
        ("policy='token' rate='10/s' burst='20'", Some(2_000_000)),
        ("policy='token' rate='3/ms' burst='1'", Some(333)),
        ("policy='gcra' rate='1/m' burst='2' per-call='true'", Some(120_000_000)),
        ("policy='calendar' unit='day' max='5'", None),
        ("policy='total' max='5'", None),
        ("policy='count'", None),
        ("policy='distinct' precision='exact' max='5'", None),
    ] {
        assert_eq!(limit(settings, "").policy.period_us(), expected, "{settings}");
    }
    let slow = Policy::Token(Token { rate: 1, per_ms: u64::MAX, burst: u64::MAX });
    assert_eq!(slow.period_us(), Some(u64::MAX));
}
