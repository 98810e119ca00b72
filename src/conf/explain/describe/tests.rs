//! Limits in words.

use super::*;
use crate::Conf;

/// The words for a biz with this content, after `biz: `.
fn words(content: &str, key: &str, mode: &str) -> String {
    words_of(&format!("key='{key}' mode='{mode}'"), content)
}

/// The words for a biz with these settings and this content, after `biz: `.
fn words_of(settings: &str, content: &str) -> String {
    let map = format!(
        "<map><group name='g' files='1' key-nodes='8' node-size='1024'/>
         <biz id='1' name='biz' {settings}>{content}</biz></map>"
    );
    let conf = Conf::parse("s", "<srv/>", "m", &map).unwrap_or_else(|faults| panic!("{faults}"));
    let words = biz_words(&conf.map.bizs[0]);
    words.strip_prefix("biz: ").unwrap_or_else(|| panic!("{words}")).to_owned()
}

fn of_limit(settings: &str) -> String {
    words(&format!("<limit {settings}/>"), "string", "enforce")
}

#[test]
fn registers_have_words() {
    for (content, expected) in [
        ("<register/>", "registers, each a number or a text of at most 40 bytes"),
        ("<register text-bytes='0'/>", "registers, each a number"),
    ] {
        assert_eq!(words_of("key='string'", content), expected);
    }
}

#[test]
fn every_policy_has_words() {
    for (settings, expected) in [
        (
            "policy='interval' interval='60s' max='5' ban='10m'",
            "5 in 60 s from the first use, then banned for 10 m",
        ),
        (
            "policy='interval' interval='1h' max='1000' debt='300'",
            "1,000 and 300 on credit in 1 h from the first use",
        ),
        (
            "policy='calendar' unit='day' tz='Asia/Shanghai' max='3'",
            "3 in each natural day of Asia/Shanghai, turning at 00:00",
        ),
        (
            "policy='calendar' unit='week' max='3' at='04:05' debt='1'",
            "3 and 1 on credit in each natural week of UTC, turning on Mondays at 04:05",
        ),
        (
            "policy='calendar' unit='month' max='3'",
            "3 in each natural month of UTC, turning on the 1st at 00:00",
        ),
        (
            "policy='calendar' unit='year' max='3'",
            "3 in each natural year of UTC, turning on 1 January at 00:00",
        ),
        ("policy='calendar' unit='minute' max='3'", "3 in each natural minute of UTC"),
        ("policy='calendar' unit='hour' max='3'", "3 in each natural hour of UTC"),
        ("policy='sliding' interval='24h' max='50'", "50 in any 24 h"),
        ("policy='sliding-counter' interval='1m' max='50'", "about 50 in any 60 s"),
        ("policy='token' rate='10/s' burst='20'", "10/s, bursts of 20"),
        ("policy='token' rate='7/d'", "7/d, bursts of 7"),
        ("policy='gcra' rate='30/m' burst='16'", "30/m, bursts of 16"),
        (
            "policy='gcra' rate='30/m' burst='16' per-call='true' max-period='2h'",
            "30/m, bursts of 16, or what the call brings, in at most 2 h",
        ),
        (
            "policy='gcra' rate='30/m' per-call='true' most='1000'",
            "30/m, bursts of 30, or what the call brings, up to 1,000 in at most 24 h",
        ),
        (
            "policy='sliding' interval='60s' max='5' per-call='true' most='100'",
            "5 in any 60 s, or what the call brings, up to 100 in at most 24 h",
        ),
        (
            "policy='calendar' unit='hour' max='5' per-call='true' max-period='32d' ban='1m'",
            "5 in each natural hour of UTC, or what the call brings, up to 5 in at most 32 d, then banned for 60 s",
        ),
        (
            "policy='total' max='100' per-call='true' most='2000'",
            "100 in all, or what the call brings, up to 2,000",
        ),
        ("policy='total' max='10000' scope='biz'", "10,000 in all, for all keys together"),
        ("policy='count'", "counted for ever, never refused"),
        (
            "policy='count' unit='day' tz='Asia/Shanghai' at='04:00'",
            "counted in each natural day of Asia/Shanghai, turning at 04:00, never refused",
        ),
        (
            "policy='count' unit='day' history='30'",
            "counted in each natural day of UTC, turning at 00:00, never refused, the 30 windows before are kept",
        ),
        (
            "policy='calendar' unit='hour' max='5' history='1' ban='1m'",
            "5 in each natural hour of UTC, the window before is kept, then banned for 60 s",
        ),
        (
            "policy='sliding' interval='1s' max='3' on-exceed='captcha'",
            "3 in any 1 s, beyond that the word captcha",
        ),
        ("policy='total' max='1' on-exceed='refuse' ban='1d'", "1 in all, then banned for 24 h"),
    ] {
        assert_eq!(of_limit(settings), expected, "{settings}");
    }
}

#[test]
fn weights_are_said() {
    let of = |weights: &str| {
        words(&format!("<limit policy='total' max='9'>{weights}</limit>"), "string", "enforce")
    };
    assert_eq!(
        of("<weight at='2' value='1'/><weight at='4' value='0.3'/><weight at='10' value='0'/>"),
        "9 in all, weighing 1 at 2, 0.3 at 4, 0 at 10"
    );
    assert_eq!(of("<weight at='0' value='999.050'/>"), "9 in all, weighing 999.05 at 0");
    let many: String = (0..9).map(|at| format!("<weight at='{at}' value='1'/>")).collect();
    assert!(of(&many).ends_with("1 at 7, …"), "{}", of(&many));
}

#[test]
fn several_limits_are_numbered_lists_counted_and_modes_told() {
    let content = "<limit policy='sliding' interval='1m' max='15'/>
        <limit policy='sliding' interval='24h' max='50'/>
        <deny key='a*'/><override key='b' limit='1' max='16'/><deny key='c'/><allow key='*'/>";
    let all = "(1) 15 in any 60 s; (2) 50 in any 24 h; listed keys: 1 allow, 2 deny, 1 override";
    assert_eq!(words(content, "string", "enforce"), all);
    let of = |mode| words("<limit policy='total' max='1'/><allow key='::1'/>", "ip", mode);
    assert_eq!(of("enforce"), "1 in all; listed keys: 1 allow");
    assert_eq!(
        of("shadow"),
        "1 in all; listed keys: 1 allow; in shadow: judged, and nothing is refused"
    );
    assert_eq!(of("off"), "1 in all; listed keys: 1 allow; off: nothing is judged");
}

#[test]
fn retries_and_holds_are_told() {
    let of = |settings: &str, limit: &str| {
        words_of(&format!("key='ip' {settings}"), &format!("<limit {limit}/><deny key='::/0'/>"))
    };
    let total = "policy='total' max='1'";
    assert_eq!(
        of("once='8'", total),
        "1 in all; retries charge once: the last 8 ids for 60 s; listed keys: 1 deny"
    );
    assert_eq!(
        of("once='1' once-for='1h' holds='16' hold-ttl='10m'", total),
        "1 in all; retries charge once: the last id for 1 h; 16 holds of at most 10 m, which \
         stay charged when they lapse; listed keys: 1 deny"
    );
    assert_eq!(
        of("holds='1' on-lapse='free'", total),
        "1 in all; 1 hold of at most 60 s, given back when they lapse; listed keys: 1 deny"
    );
    assert_eq!(
        of("", "policy='concurrent' max='20' on-exceed='slow'"),
        "20 held at once, beyond that the word slow; 20 holds of at most 60 s, freed when they \
         lapse; listed keys: 1 deny"
    );
}

#[test]
fn shares_are_told() {
    let of = |sharing: &str| {
        let srv = "<srv><cluster name='c' secret-file='s'><node>a:1</node></cluster></srv>";
        let map = format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='256'/>
             <biz id='1' name='biz' key='string' mode='shadow' {sharing}>
             <limit policy='total' max='1'/></biz></map>"
        );
        let conf = Conf::parse("s", srv, "m", &map).unwrap_or_else(|faults| panic!("{faults}"));
        biz_words(&conf.map.bizs[0])
    };
    let shadow = "; in shadow: judged, and nothing is refused";
    assert_eq!(of("share='host'"), format!("biz: 1 in all{shadow}"));
    assert_eq!(
        of("share='cluster' hosts='1000'"),
        format!("biz: 1 in all; shared by 1,000 machines, in leases{shadow}")
    );
    assert_eq!(
        of("share='exact'"),
        format!("biz: 1 in all; shared by all machines, one by one{shadow}")
    );
}

#[test]
fn durations_have_the_unit_people_write() {
    for (ms, expected) in [
        (0, "0 ms"),
        (250, "250 ms"),
        (1000, "1 s"),
        (1500, "1,500 ms"),
        (60_000, "60 s"),
        (90_000, "90 s"),
        (120_000, "2 m"),
        (600_000, "10 m"),
        (3_600_000, "1 h"),
        (5_400_000, "90 m"),
        (86_400_000, "24 h"),
        (172_800_000, "2 d"),
        (604_800_000, "7 d"),
    ] {
        assert_eq!(duration_words(ms), expected);
    }
}
