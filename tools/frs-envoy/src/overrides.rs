//! The limit that Envoy sends with a descriptor, as the numbers that a call brings.
//!
//! Invariant: numbers are made only where the business takes them. A limit of Envoy that the
//! business does not take is ignored, so it fails no call.

use frs_conf::{Biz, CallRate, Policy, Unit as Turn};
use frs_limit::{CallLimits, CallNumbers, Rules};

use crate::messages::{LimitOverride, Unit};

/// The numbers of a call, as its item brings them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemNumbers {
    /// A rate.
    Rate(String),
    /// A maximum alone.
    Max(u64),
}

/// The limit of a business that takes what Envoy sends: the first one with `per-call`.
#[derive(Debug)]
pub struct CallLimit {
    kind: Kind,
    /// The limits of the business, which know their bounds.
    rules: Rules,
}

/// What a limit takes from a call.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Uses in a natural unit.
    Turns,
    /// Uses in a period.
    Period,
    /// A maximum without a window.
    Max,
}

impl CallLimit {
    /// The limit of a business. `None` if it takes nothing that Envoy sends.
    pub fn of(biz: &Biz) -> Option<CallLimit> {
        let limit = biz.limits.iter().find(|limit| limit.per_call.is_some())?;
        let kind = match &limit.policy {
            Policy::Calendar(_) => Kind::Turns,
            Policy::Interval(_) | Policy::Sliding(_) | Policy::SlidingCounter(_) => Kind::Period,
            Policy::Token(_) | Policy::Gcra(_) => Kind::Period,
            Policy::Total(_) => Kind::Max,
            Policy::Distinct(_) | Policy::Count(_) | Policy::Concurrent(_) => return None,
        };
        Some(CallLimit { kind, rules: Rules::new(biz) })
    }

    /// What a limit of Envoy becomes. `None` if the business does not take it.
    pub fn numbers(&self, sent: &LimitOverride) -> Option<ItemNumbers> {
        let uses = u64::from(sent.requests_per_unit);
        let window = match self.kind {
            Kind::Max => {
                return self.takes(CallNumbers::Max(uses)).then_some(ItemNumbers::Max(uses));
            }
            Kind::Turns => turns(sent.unit())?,
            Kind::Period => period(sent.unit())?,
        };
        let text = format!("{uses}/{window}");
        let rates = [CallRate::of_text(&text)?];
        let numbers = CallNumbers::Rates { rates: &rates, burst: None };
        self.takes(numbers).then_some(ItemNumbers::Rate(text))
    }

    fn takes(&self, numbers: CallNumbers<'_>) -> bool {
        let mut taken = CallLimits::NONE;
        self.rules.take_numbers(numbers, &mut taken)
    }
}

/// A natural unit as a rate writes it.
fn turns(unit: Unit) -> Option<&'static str> {
    let turn = match unit {
        Unit::Unknown | Unit::Second => return None,
        Unit::Minute => Turn::Minute,
        Unit::Hour => Turn::Hour,
        Unit::Day => Turn::Day,
        Unit::Week => Turn::Week,
        Unit::Month => Turn::Month,
        Unit::Year => Turn::Year,
    };
    Turn::NAMES.iter().find(|(_, known)| *known == turn).map(|&(name, _)| name)
}

/// A unit as a period in a rate. A month has 30 days, a year 365.
fn period(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Unknown => None,
        Unit::Second => Some("1s"),
        Unit::Minute => Some("1m"),
        Unit::Hour => Some("1h"),
        Unit::Day => Some("24h"),
        Unit::Week => Some("7d"),
        Unit::Month => Some("30d"),
        Unit::Year => Some("365d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frs_conf::Conf;

    /// What a business with these limits makes of 5 in each unit, from the second to the week.
    fn made(limits: &str) -> Vec<String> {
        let map = format!(
            "<map><group name='g' files='1' key-nodes='64' chain='8' node-size='2048'/>\
             <biz id='1' name='b' key='string'>{limits}</biz></map>"
        );
        let conf = Conf::parse("srv.xml", "<srv/>", "map.xml", &map).expect("understood");
        let limit = CallLimit::of(&conf.map.bizs[0]);
        let units = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week];
        let units = units.into_iter().chain([Unit::Month, Unit::Year, Unit::Unknown]);
        let made = units.map(|unit| {
            let sent = LimitOverride { requests_per_unit: 5, unit: unit.into() };
            match limit.as_ref().and_then(|limit| limit.numbers(&sent)) {
                None => "-".to_owned(),
                Some(ItemNumbers::Max(max)) => max.to_string(),
                Some(ItemNumbers::Rate(rate)) => rate,
            }
        });
        made.collect()
    }

    // Shows: envoy-override.
    #[test]
    fn units_become_periods_or_natural_units() {
        const PERIODS: [&str; 8] =
            ["5/1s", "5/1m", "5/1h", "5/24h", "5/7d", "5/30d", "5/365d", "-"];
        let limit = |policy: &str| format!("<limit policy='{policy} per-call='true'/>");
        let long = " most='9' max-period='400d'";
        for policy in ["interval' interval='1m' max='9'", "sliding-counter' interval='1m' max='9'"]
        {
            assert_eq!(made(&limit(&format!("{policy}{long}"))), PERIODS, "{policy}");
        }
        for policy in ["gcra' rate='9/s' burst='9'", "token' rate='9/s' burst='9'"] {
            let made = made(&limit(&format!("{policy}{long}")));
            assert_eq!(made[..4], PERIODS[..4], "{policy}");
        }
        let calendar = limit(&format!("calendar' unit='day' max='9'{long}"));
        let turns = ["-", "5/minute", "5/hour", "5/day", "5/week", "5/month", "5/year", "-"];
        assert_eq!(made(&calendar), turns);
        assert_eq!(made(&limit("total' max='9'")), ["5"; 8]);
    }

    // Shows: envoy-override.
    #[test]
    fn what_is_out_of_bounds_or_has_no_place_is_ignored() {
        let interval = "<limit policy='interval' interval='1h' max='9'";
        assert_eq!(made(&format!("{interval}/>")), ["-"; 8]);
        let low = "<limit policy='interval' interval='1h' max='4' per-call='true'/>";
        assert_eq!(made(low), ["-"; 8]);
        let hours = made(&format!("{interval} per-call='true' max-period='1h'/>"));
        assert_eq!(hours, ["5/1s", "5/1m", "5/1h", "-", "-", "-", "-", "-"]);
        let first = format!(
            "{interval}/>{interval} per-call='true' max-period='1h'/>\
             <limit policy='calendar' unit='day' max='9' per-call='true'/>"
        );
        assert_eq!(made(&first), hours);
        let total = "<limit policy='total' max='9' per-call='true'/>";
        assert_eq!(made(&format!("{total}{interval} per-call='true'/>")), ["-"; 8]);
    }
}
