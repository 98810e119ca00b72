//! Options that few items have: numbers for limits, a member, the id of a retry, a hold.
//!
//! Invariant: the service judges them, not the reader. Text that cannot be a number is kept as
//! such, and its item is answered with an error.

use frs_conf::{CallRate, MAX_PER_CALL};
use frs_limit::CallNumbers;

/// The options that few items have. `T` is a text, or where the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extras<T> {
    /// The rates for its limits with `per-call`, in their order, with spaces between them.
    pub rate: Option<T>,
    /// The burst of its rate. The inner `None` stands for text that is no number.
    pub burst: Option<Option<u64>>,
    /// The maximum of its limit with `per-call`. The inner `None` stands for text that is no
    /// number.
    pub max: Option<Option<u64>>,
    /// Charge as many uses as every limit admits.
    pub partial: bool,
    /// The member that `distinct` limits note.
    pub member: Option<T>,
    /// The id under which an Update is charged once, however often it arrives.
    pub once: Option<T>,
    /// The hold that `count` belongs to.
    pub hold: Option<T>,
    /// The life of the hold in milliseconds. The inner `None` stands for text that is no number.
    pub ttl_ms: Option<Option<u64>>,
    /// `count` is the true cost of the hold.
    pub settle: bool,
}

impl<T> Extras<T> {
    /// Nothing.
    pub const NONE: Extras<T> = Extras {
        rate: None,
        burst: None,
        max: None,
        partial: false,
        member: None,
        once: None,
        hold: None,
        ttl_ms: None,
        settle: false,
    };

    /// Whether there is anything.
    #[inline]
    pub fn is_any(&self) -> bool {
        let Extras { rate, burst, max, partial, member, once, hold, ttl_ms, settle } = self;
        (rate.is_some() | burst.is_some() | max.is_some() | partial | member.is_some())
            | (once.is_some() | hold.is_some() | ttl_ms.is_some() | settle)
    }

    /// Whether there are at most numbers for limits with `per-call`.
    #[inline]
    pub fn is_only_numbers(&self) -> bool {
        let Extras { partial, member, once, hold, ttl_ms, settle, .. } = self;
        !(member.is_some() | once.is_some() | hold.is_some() | ttl_ms.is_some() | partial | settle)
    }

    /// The same without numbers for limits.
    #[inline]
    pub fn without_numbers(self) -> Extras<T> {
        Extras { rate: None, burst: None, max: None, ..self }
    }

    /// The same, with each text changed.
    #[inline]
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> Extras<U> {
        let Extras { burst, max, partial, ttl_ms, settle, .. } = self;
        Extras {
            rate: self.rate.map(&mut of),
            member: self.member.map(&mut of),
            once: self.once.map(&mut of),
            hold: self.hold.map(&mut of),
            burst,
            max,
            partial,
            ttl_ms,
            settle,
        }
    }
}

/// The numbers of an item, as a request keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum KeptNumbers {
    #[default]
    None,
    Bad,
    Max(u64),
    Rates {
        from: u32,
        to: u32,
        burst: Option<u64>,
    },
}

impl KeptNumbers {
    /// Of the options of an item. Its rates are appended to `rates`.
    #[inline]
    pub fn of<T>(extras: &Extras<T>, rate: Option<&str>, rates: &mut Vec<CallRate>) -> KeptNumbers {
        let &Extras { burst, max, .. } = extras;
        match (rate, burst, max) {
            (None, None, None) => KeptNumbers::None,
            (None, None, Some(Some(max))) => KeptNumbers::Max(max),
            (Some(text), None | Some(Some(_)), None) => {
                let from = rates.len();
                if let Some(rate) = CallRate::of_bytes(text.as_bytes()) {
                    rates.push(rate);
                    return KeptNumbers::rates(from, rates, burst.flatten());
                }
                for word in text.as_bytes().split(|&byte| byte == b' ') {
                    match CallRate::of_bytes(word) {
                        Some(rate) if rates.len() - from < MAX_PER_CALL => rates.push(rate),
                        None if word.is_empty() => {}
                        _ => {
                            rates.truncate(from);
                            return KeptNumbers::Bad;
                        }
                    }
                }
                KeptNumbers::rates(from, rates, burst.flatten())
            }
            _ => KeptNumbers::Bad,
        }
    }

    /// The rates from this one on.
    pub fn rates(from: usize, rates: &[CallRate], burst: Option<u64>) -> KeptNumbers {
        if from == rates.len() {
            return KeptNumbers::Bad;
        }
        KeptNumbers::Rates { from: from as u32, to: rates.len() as u32, burst }
    }

    /// With the rates of their request. `None`: the item brings no numbers.
    pub fn with(self, rates: &[CallRate]) -> Option<CallNumbers<'_>> {
        Some(match self {
            KeptNumbers::None => return None,
            KeptNumbers::Bad => CallNumbers::Bad,
            KeptNumbers::Max(max) => CallNumbers::Max(max),
            KeptNumbers::Rates { from, to, burst } => {
                CallNumbers::Rates { rates: &rates[from as usize..to as usize], burst }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use frs_conf::{CallWindow, Unit};

    use super::*;

    const NUMBERS: Extras<&str> = Extras::NONE;

    fn read(extras: Extras<&str>) -> String {
        let mut rates = vec![CallRate::per(7, 7)];
        format!("{:?}", KeptNumbers::of(&extras, extras.rate, &mut rates).with(&rates))
    }

    fn said(numbers: CallNumbers<'_>) -> String {
        format!("{:?}", Some(numbers))
    }

    #[test]
    fn rates_in_order_with_the_burst_of_one() {
        let minute = CallRate::per(5, 60_000_000_000);
        let month = CallRate { uses: 100, window: CallWindow::Unit(Unit::Month) };
        for (rate, rates) in [
            ("5/m", &[minute][..]),
            ("5/60s", &[minute]),
            ("5/1m 100/month", &[minute, month]),
            (" 100/month  5/60000ms ", &[month, minute]),
        ] {
            let extras = Extras { rate: Some(rate), ..NUMBERS };
            assert_eq!(read(extras), said(CallNumbers::Rates { rates, burst: None }), "{rate}");
        }
        let extras = Extras { rate: Some("5/m"), burst: Some(Some(9)), ..NUMBERS };
        assert_eq!(read(extras), said(CallNumbers::Rates { rates: &[minute], burst: Some(9) }));
        assert_eq!(read(Extras { max: Some(Some(0)), ..NUMBERS }), said(CallNumbers::Max(0)));
        assert_eq!(read(NUMBERS), "None");
    }

    #[test]
    fn everything_else_is_bad() {
        for rate in [
            "",
            " ",
            "5",
            "5/",
            "/s",
            "5/w",
            "5/0s",
            "5/1month",
            "-5/s",
            "+5/s",
            "5/s,9/m",
            "5 /s",
            "5/s x",
            "5/99999999999d",
            "99999999999999999999/s",
            "5/s\t6/s",
            "5/1.5s",
            "٣/s",
        ] {
            let extras = Extras { rate: Some(rate), ..NUMBERS };
            assert_eq!(read(extras), said(CallNumbers::Bad), "{rate}");
        }
        for extras in [
            Extras { burst: Some(Some(5)), ..NUMBERS },
            Extras { rate: Some("5/s"), burst: Some(None), ..NUMBERS },
            Extras { rate: Some("5/s"), max: Some(Some(5)), ..NUMBERS },
            Extras { burst: Some(Some(5)), max: Some(Some(5)), ..NUMBERS },
            Extras { max: Some(None), ..NUMBERS },
        ] {
            assert_eq!(read(extras), said(CallNumbers::Bad), "{extras:?}");
        }
    }
}
