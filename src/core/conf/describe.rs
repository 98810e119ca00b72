//! What limits allow, in words, for `frs check` and for pages.
//!
//! Invariant: one line each, from the checked settings alone.

use std::fmt::Write as _;

use super::map::{Biz, Limit, ListRule, Mode, Policy, Scope, Turns, Unit, Weight};
use super::share::{Share, Sharing};
use super::value::RATE_UNITS;
use crate::base::figures::grouped;

/// A unit of time in words.
struct SpokenUnit {
    name: &'static str,
    ms: u64,
    /// The least number for which the unit is used.
    least: u64,
}

/// A minute is 60 s and a day 24 h, because `day` would mean a calendar day.
const UNITS: [SpokenUnit; 5] = [
    SpokenUnit { name: "d", ms: 86_400_000, least: 2 },
    SpokenUnit { name: "h", ms: 3_600_000, least: 1 },
    SpokenUnit { name: "m", ms: 60_000, least: 2 },
    SpokenUnit { name: "s", ms: 1000, least: 1 },
    SpokenUnit { name: "ms", ms: 1, least: 0 },
];
/// The most weights that are listed. The others are between them or after them.
const WEIGHTS_SAID: usize = 8;

/// What a biz allows: its name, each of its limits, how many keys it lists, how machines share it,
/// and its mode unless it enforces. `login: 5 in 60 s from the first use, then banned for 10 m`.
pub fn biz_words(biz: &Biz) -> String {
    let limits: Vec<String> = match biz.limits.as_slice() {
        [limit] => vec![limit_words(limit)],
        limits => (1..).zip(limits).map(|(nth, l)| format!("({nth}) {}", limit_words(l))).collect(),
    };
    let mut words = format!("{}: {}", biz.name, limits.join("; "));
    let lists = lists_words(biz);
    if !lists.is_empty() {
        let _ = write!(words, "; listed keys: {lists}");
    }
    if let Some(sharing) = &biz.sharing {
        let _ = write!(words, "; {}", sharing_words(sharing));
    }
    words.push_str(match biz.mode {
        Mode::Enforce => "",
        Mode::Shadow => "; in shadow: judged, and nothing is refused",
        Mode::Off => "; off: nothing is judged",
    });
    words
}

/// What a limit allows: `3 in each natural day of Asia/Shanghai, turning at 00:00`.
pub fn limit_words(limit: &Limit) -> String {
    let mut words = policy_words(&limit.policy);
    if limit.scope == Scope::Biz {
        words.push_str(", for all keys together");
    }
    if let Some(ban_ms) = limit.ban_ms {
        let _ = write!(words, ", then banned for {}", duration_words(ban_ms));
    }
    if let Some(advice) = &limit.advice {
        let _ = write!(words, ", beyond that the word {advice}");
    }
    if !limit.weights.is_empty() {
        let _ = write!(words, ", weighing {}", weights_words(&limit.weights));
    }
    words
}

fn policy_words(policy: &Policy) -> String {
    match policy {
        Policy::Interval(limit) => format!(
            "{} in {} from the first use",
            lent_words(limit.max, limit.debt),
            duration_words(limit.interval_ms)
        ),
        Policy::Calendar(limit) => {
            format!("{} in {}", lent_words(limit.max, limit.debt), turns_words(&limit.turns))
        }
        Policy::Sliding(limit) => {
            format!("{} in any {}", grouped(limit.max), duration_words(limit.interval_ms))
        }
        Policy::SlidingCounter(limit) => {
            format!("about {} in any {}", grouped(limit.max), duration_words(limit.interval_ms))
        }
        Policy::Token(limit) => {
            let (rate, burst) = (grouped(limit.rate), grouped(limit.burst));
            format!("{rate}/{}, bursts of {burst}", rate_unit(limit.per_ms))
        }
        Policy::Gcra(limit) => {
            let (rate, burst) = (grouped(limit.rate), grouped(limit.burst));
            let mut words = format!("{rate}/{}, bursts of {burst}", rate_unit(limit.per_ms));
            if let Some(max_period_ms) = limit.max_period_ms {
                let period = duration_words(max_period_ms);
                let _ = write!(words, ", or what the call says of at most {period}");
            }
            words
        }
        Policy::Total(limit) => format!("{} in all", grouped(limit.max)),
        Policy::Count(limit) => match &limit.turns {
            Some(turns) => format!("counted in {}, never refused", turns_words(turns)),
            None => "counted for ever, never refused".to_owned(),
        },
    }
}

fn lent_words(max: u64, debt: u64) -> String {
    let max = grouped(max);
    if debt == 0 { max } else { format!("{max} and {} on credit", grouped(debt)) }
}

fn turns_words(turns: &Turns) -> String {
    let (unit, day) = match turns.unit {
        Unit::Minute => ("minute", None),
        Unit::Hour => ("hour", None),
        Unit::Day => ("day", Some("")),
        Unit::Week => ("week", Some("on Mondays ")),
        Unit::Month => ("month", Some("on the 1st ")),
        Unit::Year => ("year", Some("on 1 January ")),
    };
    let zone = turns.zone.iana_name().unwrap_or("UTC");
    let mut words = format!("each natural {unit} of {zone}");
    if let Some(day) = day {
        let (hours, minutes) = (turns.at_minutes / 60, turns.at_minutes % 60);
        let _ = write!(words, ", turning {day}at {hours:02}:{minutes:02}");
    }
    words
}

fn weights_words(weights: &[Weight]) -> String {
    let said = weights.iter().take(WEIGHTS_SAID);
    let mut said: Vec<String> = said
        .map(|weight| {
            format!("{} at {}", thousandths_words(weight.thousandths), grouped(weight.at))
        })
        .collect();
    if weights.len() > WEIGHTS_SAID {
        said.push("…".to_owned());
    }
    said.join(", ")
}

/// How limits are shared: `shared by 8 machines, in leases`.
fn sharing_words(sharing: &Sharing) -> String {
    match sharing.share {
        Share::Cluster => {
            format!("shared by {} machines, in leases", grouped(sharing.hosts.into()))
        }
        Share::Exact => "shared by all machines, one by one".to_owned(),
    }
}

fn lists_words(biz: &Biz) -> String {
    let count =
        |of: fn(&ListRule) -> bool| biz.listed.iter().filter(|listed| of(&listed.rule)).count();
    let counts = [
        ("allow", count(|rule| matches!(rule, ListRule::Allow))),
        ("deny", count(|rule| matches!(rule, ListRule::Deny))),
        ("override", count(|rule| matches!(rule, ListRule::Override { .. }))),
    ];
    let some = counts.iter().filter(|&&(_, count)| count > 0);
    some.map(|(kind, count)| format!("{} {kind}", grouped(*count as u64)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The most readable text of a duration: `60 s`, `10 m`, `24 h`.
pub(super) fn duration_words(ms: u64) -> String {
    let fits = |unit: &&SpokenUnit| ms.is_multiple_of(unit.ms) && ms / unit.ms >= unit.least;
    match UNITS.iter().find(fits) {
        Some(unit) => format!("{} {}", grouped(ms / unit.ms), unit.name),
        None => format!("{} ms", grouped(ms)),
    }
}

fn rate_unit(per_ms: u64) -> String {
    match RATE_UNITS.iter().find(|unit| unit.factor == per_ms) {
        Some(unit) => unit.name.to_owned(),
        None => format!("{per_ms} ms"),
    }
}

fn thousandths_words(thousandths: u32) -> String {
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Conf;
    use super::*;

    /// The words for a biz with this content, after `biz: `.
    fn words(content: &str, key: &str, mode: &str) -> String {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='8' node-size='1024'/>
             <biz id='1' name='biz' key='{key}' mode='{mode}'>{content}</biz></map>"
        );
        let conf =
            Conf::parse("s", "<srv/>", "m", &map).unwrap_or_else(|faults| panic!("{faults}"));
        let words = biz_words(&conf.map.bizs[0]);
        words.strip_prefix("biz: ").unwrap_or_else(|| panic!("{words}")).to_owned()
    }

    fn of_limit(settings: &str) -> String {
        words(&format!("<limit {settings}/>"), "string", "enforce")
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
                "30/m, bursts of 16, or what the call says of at most 2 h",
            ),
            ("policy='total' max='10000' scope='biz'", "10,000 in all, for all keys together"),
            ("policy='count'", "counted for ever, never refused"),
            (
                "policy='count' unit='day' tz='Asia/Shanghai' at='04:00'",
                "counted in each natural day of Asia/Shanghai, turning at 04:00, never refused",
            ),
            (
                "policy='sliding' interval='1s' max='3' on-exceed='captcha'",
                "3 in any 1 s, beyond that the word captcha",
            ),
            (
                "policy='total' max='1' on-exceed='refuse' ban='1d'",
                "1 in all, then banned for 24 h",
            ),
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
        let all =
            "(1) 15 in any 60 s; (2) 50 in any 24 h; listed keys: 1 allow, 2 deny, 1 override";
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
}
