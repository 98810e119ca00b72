//! All policies as one type, and the dispatch over them.
//!
//! Invariant: no match over policies has a wildcard. The most common policy has its own fast path,
//! with the same result as the steps of the other policies.

use frs_conf as conf;
use frs_conf::{Interval, Sliding, SlidingCounter, Total};

use super::bucket::Bucket;
use super::calendar::{Calendar, Windows};
use super::calendar_windows::Span;
use super::concurrent::Concurrent;
use super::count::Count;
use super::distinct::Distinct;
use super::gcra::Gcra;
use super::history::History;
use super::history_ring::{Remembered, Totals};
use super::interval::Window;
use super::per_call::PerCall;
use super::policy::{Policy, Properties};
use super::shared_policy::SharedPolicy;
use super::state_word::WordNames;
use super::{Demand, Figures, Terms};

/// The policy of a limit.
#[derive(Debug, Clone)]
pub(super) enum AnyPolicy {
    Interval(Interval),
    Calendar(Box<Calendar>),
    Sliding(Sliding),
    SlidingCounter(SlidingCounter),
    Token(Bucket),
    Gcra(Gcra),
    Total(Total),
    Count(Count),
    Distinct(Box<Distinct>),
    /// `calendar` or `count` that remembers windows.
    History(Box<History>),
    /// What is held at once.
    Concurrent(Concurrent),
    /// Any policy whose numbers may come with the call.
    PerCall(Box<PerCall>),
    /// Any policy that machines share.
    Shared(Box<dyn SharedPolicy>),
}

// A request reads one of these for each limit, so large variants are boxed.
const _: () = assert!(size_of::<AnyPolicy>() == 32);

/// Evaluates an expression for any variant.
macro_rules! each {
    ($policy:expr, $limit:ident => $value:expr) => {
        match $policy {
            AnyPolicy::Interval($limit) => $value,
            AnyPolicy::Calendar($limit) => $value,
            AnyPolicy::Sliding($limit) => $value,
            AnyPolicy::SlidingCounter($limit) => $value,
            AnyPolicy::Token($limit) => $value,
            AnyPolicy::Gcra($limit) => $value,
            AnyPolicy::Total($limit) => $value,
            AnyPolicy::Count($limit) => $value,
            AnyPolicy::Distinct($limit) => $value,
            AnyPolicy::History($limit) => $value,
            AnyPolicy::Concurrent($limit) => $value,
            AnyPolicy::PerCall($limit) => $value,
            AnyPolicy::Shared($limit) => $value,
        }
    };
}

impl AnyPolicy {
    /// Prepares settings. Those with a calendar need the time set before they are used.
    pub fn new(settings: &conf::Policy) -> AnyPolicy {
        match settings {
            conf::Policy::Interval(limit) => AnyPolicy::Interval(*limit),
            conf::Policy::Calendar(limit) => AnyPolicy::Calendar(Box::new(Calendar::new(limit))),
            conf::Policy::Sliding(limit) => AnyPolicy::Sliding(*limit),
            conf::Policy::SlidingCounter(limit) => AnyPolicy::SlidingCounter(*limit),
            conf::Policy::Token(limit) => AnyPolicy::Token(Bucket::new(limit)),
            conf::Policy::Gcra(limit) => AnyPolicy::Gcra(Gcra::new(limit)),
            conf::Policy::Total(limit) => AnyPolicy::Total(*limit),
            conf::Policy::Count(limit) => AnyPolicy::Count(Count::new(limit)),
            conf::Policy::Distinct(limit) => AnyPolicy::Distinct(Box::new(Distinct::new(limit))),
            conf::Policy::Concurrent(limit) => AnyPolicy::Concurrent(Concurrent::new(limit, 0)),
        }
    }

    /// Prepares a limit whose numbers may come with the call: its bounds, and its place among such
    /// limits. `ttl_ms` is the longest life of a hold.
    pub fn of_limit(
        settings: &conf::Policy,
        per_call: Option<(conf::PerCall, usize)>,
        ttl_ms: u64,
    ) -> AnyPolicy {
        let own = per_call.and_then(|(bounds, nth)| PerCall::new(settings, bounds, nth));
        match (own, settings) {
            (Some(own), _) => AnyPolicy::PerCall(Box::new(own)),
            (None, conf::Policy::Concurrent(limit)) => {
                AnyPolicy::Concurrent(Concurrent::new(limit, ttl_ms))
            }
            (None, _) => AnyPolicy::new(settings),
        }
    }

    /// The same limit with a history, if it has calendar windows.
    pub fn with_history(self, remembered: Remembered) -> AnyPolicy {
        let history = |history: History| AnyPolicy::History(Box::new(history));
        match self {
            AnyPolicy::Calendar(limit) => history(History::of(*limit, remembered)),
            AnyPolicy::Count(limit) => match limit.into_calendar() {
                Ok(turns) => history(History::of_count(turns, remembered)),
                Err(limit) => AnyPolicy::Count(limit),
            },
            AnyPolicy::Distinct(limit) => {
                AnyPolicy::Distinct(Box::new(limit.remembering(remembered)))
            }
            AnyPolicy::History(limit) => history(limit.remembering(remembered)),
            AnyPolicy::PerCall(limit) => {
                AnyPolicy::PerCall(Box::new(limit.with_history(remembered)))
            }
            AnyPolicy::Interval(_)
            | AnyPolicy::Sliding(_)
            | AnyPolicy::SlidingCounter(_)
            | AnyPolicy::Token(_)
            | AnyPolicy::Gcra(_)
            | AnyPolicy::Total(_)
            | AnyPolicy::Concurrent(_)
            | AnyPolicy::Shared(_) => self,
        }
    }

    /// Takes the settings of the same limit with another maximum. Keeps everything that these
    /// settings do not contain: the place of its history, or its sharing. If they have a calendar,
    /// the time must be set again.
    pub fn resize(&mut self, settings: &conf::Policy) {
        match (&mut *self, settings) {
            (AnyPolicy::Shared(limit), _) => return limit.resize(settings),
            (AnyPolicy::PerCall(limit), _) => return limit.resize(settings),
            (AnyPolicy::Concurrent(limit), conf::Policy::Concurrent(own)) => {
                *limit = limit.with_max(own.max);
                return;
            }
            _ => {}
        }
        let resized = AnyPolicy::new(settings);
        *self = match self.remembered() {
            Some(remembered) => resized.with_history(remembered.clone()),
            None => resized,
        };
    }

    /// The limit, if machines share it.
    #[inline]
    pub fn shared(&self) -> Option<&dyn SharedPolicy> {
        if let AnyPolicy::Shared(limit) = self { Some(&**limit) } else { None }
    }

    /// The totals of earlier windows, newest first. `None` if the limit keeps no history.
    #[inline]
    pub fn totals<'w>(&self, state: &'w [u64]) -> Option<Totals<'w>> {
        Some(self.remembered()?.totals(state))
    }
}

/// Methods of [`Policy`] that ask the variant.
macro_rules! ask {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident(&self $(, $value:ident: $kind:ty)*) -> $answer:ty;
    )*) => {
        impl AnyPolicy {
            $(
                $(#[$attribute])*
                pub fn $name(&self $(, $value: $kind)*) -> $answer {
                    each!(self, limit => limit.$name($($value),*))
                }
            )*
        }
    };
}

ask! {
    #[inline]
    fn remembered(&self) -> Option<&Remembered>;
    fn shape(&self) -> [u64; 2];
    fn words(&self) -> WordNames;
    fn properties(&self) -> Properties;
    #[inline]
    fn roll(&self, state: &mut [u64], now: u64, terms: &Terms) -> ();
    #[inline]
    fn admits(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> bool;
    #[inline]
    fn charge(&self, state: &mut [u64], now: u64, count: i32, terms: &Terms) -> ();
    #[inline]
    fn figures(&self, state: &[u64], now: u64, terms: &Terms) -> Figures;
    #[inline]
    fn remaining(&self, state: &[u64], now: u64, terms: &Terms) -> u64;
    fn retry_ms(&self, state: &[u64], now: u64, count: u32, terms: &Terms) -> Option<u64>;
    #[inline]
    fn window_ms(&self, state: &[u64], terms: &Terms) -> Option<u64>;
    fn quota(&self, terms: &Terms) -> Option<(u64, Option<u64>)>;
    #[inline]
    fn level_ns(&self, state: &[u64]) -> u64;
    fn counts_since(&self, state: &[u64], made_ms: u64) -> bool;
    fn life_ms(&self) -> Option<u64>;
    fn end_ms(&self, state: &[u64], last_use_ms: u64) -> Option<u64>;
    #[inline]
    fn is_fresh(&self, state: &[u64]) -> bool;
    fn is_kept(&self, state: &[u64]) -> bool;
    fn clear(&self, state: &mut [u64]) -> bool;
}

impl AnyPolicy {
    /// The windows by which it counts. Shared limits count by the time of all machines.
    fn windows_mut(&mut self) -> &mut [Windows] {
        let one = match self {
            AnyPolicy::Calendar(limit) => Some(limit.windows_mut()),
            AnyPolicy::Count(limit) => limit.windows_mut(),
            AnyPolicy::Distinct(limit) => limit.windows_mut(),
            AnyPolicy::History(limit) => Some(limit.windows_mut()),
            AnyPolicy::PerCall(limit) => return limit.windows_mut(),
            AnyPolicy::Interval(_)
            | AnyPolicy::Sliding(_)
            | AnyPolicy::SlidingCounter(_)
            | AnyPolicy::Token(_)
            | AnyPolicy::Gcra(_)
            | AnyPolicy::Total(_)
            | AnyPolicy::Concurrent(_)
            | AnyPolicy::Shared(_) => None,
        };
        one.map_or(&mut [], std::slice::from_mut)
    }

    /// Sets the time. Returns the span in which it stays valid.
    pub fn set_now(&mut self, now: u64) -> Span {
        let windows = self.windows_mut().iter_mut();
        windows.map(|windows| windows.set_now(now)).fold(Span::EVER, Span::and)
    }

    /// Takes the time set last from a limit with the same windows.
    pub fn share_now(&mut self, other: &mut AnyPolicy) {
        for (own, other) in self.windows_mut().iter_mut().zip(other.windows_mut()) {
            own.share_now(other);
        }
    }
}

/// The figures that a lone limit reports for an item.
#[derive(Debug)]
pub(super) struct LimitReport {
    pub figures: Figures,
    pub window_ms: Option<u64>,
    pub level_ns: u64,
}

impl AnyPolicy {
    /// The limit, if it is an `interval` with numbers of its own.
    #[inline(always)]
    pub fn as_interval(&self) -> Option<&Interval> {
        if let AnyPolicy::Interval(limit) = self { Some(limit) } else { None }
    }

    /// The limit of an `interval` for an item.
    #[inline]
    fn interval<'l>(&'l self, terms: &'l Terms<'_>) -> Option<&'l Interval> {
        match self {
            AnyPolicy::Interval(limit) => Some(limit),
            AnyPolicy::PerCall(limit) => limit.interval(terms),
            _ => None,
        }
    }

    /// As [`pass_window`], for any policy: `None` if the limit does not admit the demand. Not for a
    /// limit with a ring: this function neither rolls nor charges a ring.
    #[inline(never)]
    pub fn pass(&self, state: &mut [u64], now: u64, demand: Demand<'_>) -> Option<LimitReport> {
        debug_assert!(!self.properties().is_logged, "a ring is more than its limit");
        let Demand { count, charges, terms } = demand;
        if let Some(limit) = self.interval(terms) {
            return pass_window(limit, state, now, demand);
        }
        self.roll(state, now, terms);
        if u32::try_from(count).is_ok_and(|count| !self.admits(state, now, count, terms)) {
            return None;
        }
        if charges {
            self.charge(state, now, count, terms);
        }
        Some(self.report(state, now, terms))
    }

    /// The figures of a rolled state.
    pub fn report(&self, state: &[u64], now: u64, terms: &Terms) -> LimitReport {
        LimitReport {
            figures: self.figures(state, now, terms),
            window_ms: self.window_ms(state, terms),
            level_ns: self.level_ns(state),
        }
    }

    /// The report on a rolled state that does not admit an item, and the milliseconds until
    /// the limit would admit it; `None` if waiting does not help.
    pub fn refused(
        &self,
        state: &[u64],
        now: u64,
        count: u32,
        terms: &Terms,
    ) -> (LimitReport, Option<u64>) {
        (self.report(state, now, terms), self.retry_ms(state, now, count, terms))
    }
}

/// [`AnyPolicy::refused`] of an `interval`.
#[inline(always)]
pub(super) fn refused_window(
    limit: &Interval,
    state: &[u64],
    now: u64,
    count: u32,
) -> (LimitReport, Option<u64>) {
    let window = Window::of(state);
    let figures = window.figures(limit, now);
    let report = LimitReport { figures, window_ms: Some(limit.interval_ms), level_ns: 0 };
    (report, window.retry_ms(limit, now, count))
}

/// The whole path of most items: rolls an `interval` and, if it admits the demand, charges it (if
/// the demand charges) and returns its figures and the length of its window. `None` if the limit
/// does not admit the demand; then it is only rolled.
#[inline(always)]
pub(super) fn pass_window(
    limit: &Interval,
    state: &mut [u64],
    now: u64,
    demand: Demand<'_>,
) -> Option<LimitReport> {
    let Demand { count, charges, .. } = demand;
    let mut window = Window::of(state).rolled(limit, now);
    let admitted = u32::try_from(count).map_or(true, |count| window.admits(limit, count));
    if admitted && charges {
        window = window.charged(now, count);
    }
    window.store(state);
    admitted.then(|| LimitReport {
        figures: window.figures(limit, now),
        window_ms: Some(limit.interval_ms),
        level_ns: 0,
    })
}
