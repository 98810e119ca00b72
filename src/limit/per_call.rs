//! `per-call`: a limit whose numbers may come with the call.
//!
//! Invariant: it judges as the limit with these numbers would, on the state that earlier calls have
//! left. Where that state depends on the length of a window, a word of its own names the length,
//! and a call with another length begins anew. That word is 0 exactly if the state is fresh.

use frs_conf::{
    self as conf, CallRate, CallWindow, Interval, Sliding, SlidingCounter, Total, Unit,
};

use super::bucket::Bucket;
use super::calendar::{Calendar, Windows};
use super::call_numbers::{CallLimit, CallNumber, Settings};
use super::distinct::Distinct;
use super::gcra::Gcra;
use super::history::History;
use super::history_ring::Remembered;
use super::policy::{Policy, Properties};
use super::state_word::{WordNames, WordUnit};
use super::{Figures, Pace, Terms};

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;

/// A prepared limit.
#[derive(Debug, Clone)]
pub(super) struct PerCall {
    /// Its place among the limits of its business that take numbers from a call.
    nth: usize,
    bounds: conf::PerCall,
    /// An override sets the maximum of the key, and no call changes it.
    has_own_max: bool,
    own: Own,
}

/// A limit with the numbers of map.xml.
#[derive(Debug, Clone)]
enum Own {
    Interval(Interval),
    Sliding(Sliding),
    SlidingCounter(SlidingCounter),
    Token(Bucket),
    Gcra(Gcra),
    Total(Total),
    Calendar(Box<ByUnit>),
    Distinct(Box<Distinct>),
}

/// A `calendar` whose unit may come with the call.
#[derive(Debug, Clone)]
struct ByUnit {
    /// The windows of each unit, in the order of [`Unit::NAMES`].
    windows: [Windows; Unit::NAMES.len()],
    unit: Unit,
    max: u64,
    debt: u64,
    remembered: Option<Remembered>,
}

impl ByUnit {
    fn new(limit: &conf::Calendar) -> ByUnit {
        let conf::Calendar { turns, max, debt } = limit;
        let windows = Unit::NAMES.map(|(_, unit)| {
            let is_of_day = matches!(unit, Unit::Minute | Unit::Hour);
            let at_minutes = if is_of_day { 0 } else { turns.at_minutes };
            Windows::new(conf::Turns { unit, at_minutes, ..turns.clone() })
        });
        ByUnit { windows, unit: turns.unit, max: *max, debt: *debt, remembered: None }
    }

    #[inline]
    fn of(&self, unit: Unit, max: u64) -> Calendar<&Windows> {
        Calendar::over(&self.windows[unit as usize - 1], max, self.debt)
    }
}

/// Evaluates an expression for the limit with the numbers that hold for an item.
macro_rules! with_numbers {
    ($self:expr, $numbers:expr, $limit:ident => $value:expr) => {
        match (&$self.own, $numbers) {
            (_, Some(Settings::Interval($limit))) => $value,
            (_, Some(Settings::Sliding($limit))) => $value,
            (_, Some(Settings::SlidingCounter($limit))) => $value,
            (_, Some(Settings::Token($limit))) => $value,
            (_, Some(Settings::Gcra(pace))) => {
                let $limit = Gcra::of(pace);
                $value
            }
            (_, Some(Settings::Total($limit))) => $value,
            (Own::Interval($limit), _) => $value,
            (Own::Sliding($limit), _) => $value,
            (Own::SlidingCounter($limit), _) => $value,
            (Own::Token($limit), _) => $value,
            (Own::Gcra($limit), _) => $value,
            (Own::Total($limit), _) => $value,
            (Own::Distinct(own), Some(Settings::Max(max))) => {
                let $limit = own.with_max(max);
                $value
            }
            (Own::Distinct($limit), _) => $value,
            (Own::Calendar(own), numbers) => {
                let (unit, max) = match numbers {
                    Some(Settings::Calendar { unit, max }) => (unit, max),
                    _ => (own.unit, own.max),
                };
                let calendar = own.of(unit, max);
                match &own.remembered {
                    None => {
                        let $limit = calendar;
                        $value
                    }
                    Some(remembered) => {
                        let $limit = History::of(calendar, remembered.clone());
                        $value
                    }
                }
            }
        }
    };
}

impl PerCall {
    /// Prepares a limit, the `nth` of its business that takes numbers from a call. `None`: its
    /// policy takes none.
    pub fn new(settings: &conf::Policy, bounds: conf::PerCall, nth: usize) -> Option<PerCall> {
        Some(PerCall { nth, bounds, has_own_max: false, own: Own::new(settings)? })
    }

    /// The same limit with a history, if it has calendar windows.
    pub fn with_history(mut self, remembered: Remembered) -> PerCall {
        match &mut self.own {
            Own::Calendar(own) => own.remembered = Some(remembered),
            Own::Distinct(own) => **own = (**own).clone().remembering(remembered),
            _ => {}
        }
        self
    }

    /// Takes the maximum of these settings, which wins over that of a call.
    pub fn resize(&mut self, settings: &conf::Policy) {
        let remembered = self.remembered().cloned();
        if let Some(own) = Own::new(settings) {
            self.own = own;
            self.has_own_max = true;
        }
        if let Some(remembered) = remembered {
            *self = self.clone().with_history(remembered);
        }
    }

    /// Whether a rate for it may have a burst.
    pub fn is_bucket(&self) -> bool {
        matches!(self.own, Own::Token(_) | Own::Gcra(_))
    }

    /// Whether the state names the length of its window.
    #[inline]
    pub fn is_named(&self) -> bool {
        matches!(self.own, Own::Calendar(_) | Own::SlidingCounter(_))
    }

    /// The windows whose time must be set.
    pub fn windows_mut(&mut self) -> &mut [Windows] {
        match &mut self.own {
            Own::Calendar(own) => &mut own.windows,
            Own::Distinct(own) => own.windows_mut().map_or(&mut [], std::slice::from_mut),
            _ => &mut [],
        }
    }

    /// The limit as a call's numbers change it. `None`: they are out of bounds, pay no debt back in
    /// time, or are no numbers of this policy.
    pub fn take(&self, number: CallNumber) -> Option<CallLimit> {
        let most = self.bounds.most;
        let numbers = match number {
            CallNumber::Max(max) => self.with_max(max)?,
            CallNumber::Rate { rate, burst } => self.with_rate(rate, burst)?,
        };
        let is_paid_back = match (&self.own, numbers) {
            (_, Settings::Interval(limit)) => limit.is_paid_back(),
            (Own::Calendar(own), Settings::Calendar { unit, max }) => unit.pays_back(own.debt, max),
            _ => true,
        };
        (numbers.max() <= most && is_paid_back).then_some(CallLimit(numbers))
    }

    fn with_max(&self, max: u64) -> Option<Settings> {
        Some(match &self.own {
            Own::Interval(own) => Settings::Interval(Interval { max, ..*own }),
            Own::Sliding(own) => Settings::Sliding(Sliding { max, ..*own }),
            Own::SlidingCounter(own) => Settings::SlidingCounter(SlidingCounter { max, ..*own }),
            Own::Token(own) => Settings::Token(own.with_burst(max)?),
            Own::Gcra(own) => Settings::Gcra(own.pace.with_burst(max)?),
            Own::Total(_) => Settings::Total(Total { max }),
            Own::Calendar(own) => Settings::Calendar { unit: own.unit, max },
            Own::Distinct(_) => Settings::Max(Some(max).filter(|&max| max > 0)?),
        })
    }

    fn with_rate(
        &self,
        CallRate { uses, window }: CallRate,
        burst: Option<u64>,
    ) -> Option<Settings> {
        let (period, unit) = match window {
            CallWindow::Period(period) => (period, None),
            CallWindow::Unit(unit) => (0, Some(unit)),
        };
        let longest_ms = self.bounds.max_period_ms;
        if let Own::Calendar(_) = &self.own {
            let unit = unit.filter(|unit| unit.longest_ms() <= longest_ms)?;
            return Some(Settings::Calendar { unit, max: uses });
        }
        let interval_ms = period / MS;
        let is_whole = period == interval_ms * MS;
        let fits = unit.is_none() && period > 0 && interval_ms + u64::from(!is_whole) <= longest_ms;
        let (max, burst) = (uses, burst.unwrap_or(uses));
        match &self.own {
            _ if !fits => None,
            Own::Gcra(_) => Pace::new(uses, period, burst).map(Settings::Gcra),
            _ if !is_whole => None,
            Own::Interval(own) => Some(Settings::Interval(Interval { interval_ms, max, ..*own })),
            Own::Sliding(_) => Some(Settings::Sliding(Sliding { interval_ms, max })),
            Own::SlidingCounter(_) => {
                Some(Settings::SlidingCounter(SlidingCounter { interval_ms, max }))
            }
            Own::Token(_) => Bucket::exact(uses, interval_ms, burst).map(Settings::Token),
            Own::Total(_) | Own::Distinct(_) | Own::Calendar(_) => None,
        }
    }

    /// The numbers for an item. `None`: those of map.xml.
    #[inline]
    fn numbers(&self, state: &[u64], terms: &Terms<'_>) -> Option<Settings> {
        if terms.lasts || terms.looks && self.is_named() {
            return Some(self.longest(state));
        }
        let CallLimit(numbers) = *terms.brought?.limits.get(self.nth)?;
        if self.has_own_max { Some(self.with_own_max(numbers)) } else { Some(numbers) }
    }

    /// The limit for an item, if it is an interval without an override.
    #[inline]
    pub fn interval<'l>(&'l self, terms: &'l Terms<'_>) -> Option<&'l Interval> {
        let Own::Interval(own) = &self.own else { return None };
        if self.has_own_max | terms.lasts {
            return None;
        }
        match terms.brought.and_then(|brought| brought.limits.get(self.nth)) {
            Some(CallLimit(Settings::Interval(of_call))) => Some(of_call),
            _ => Some(own),
        }
    }

    #[cold]
    fn with_own_max(&self, numbers: Settings) -> Settings {
        match (&self.own, numbers) {
            (Own::Interval(own), Settings::Interval(call)) => {
                Settings::Interval(Interval { max: own.max, ..call })
            }
            (Own::Sliding(own), Settings::Sliding(call)) => {
                Settings::Sliding(Sliding { max: own.max, ..call })
            }
            (Own::SlidingCounter(own), Settings::SlidingCounter(call)) => {
                Settings::SlidingCounter(SlidingCounter { max: own.max, ..call })
            }
            (Own::Token(own), Settings::Token(call)) => Settings::Token(call.with_burst_of(own)),
            (Own::Gcra(own), Settings::Gcra(call)) => Settings::Gcra(call.with_burst_of(&own.pace)),
            (Own::Total(own), _) => Settings::Total(*own),
            (Own::Calendar(own), Settings::Calendar { unit, .. }) => {
                Settings::Calendar { unit, max: own.max }
            }
            (Own::Distinct(own), _) => Settings::Max(own.max()),
            (_, numbers) => numbers,
        }
    }

    /// The numbers under which the state counts longest, whatever calls bring.
    #[cold]
    fn longest(&self, state: &[u64]) -> Settings {
        let interval_ms = self.bounds.max_period_ms;
        match &self.own {
            Own::Interval(own) => {
                let max = slowest_max(own.max, own.debt);
                Settings::Interval(Interval { interval_ms, max, ..*own })
            }
            Own::Sliding(own) => Settings::Sliding(Sliding { interval_ms, ..*own }),
            Own::SlidingCounter(own) => {
                let interval_ms = named(state, COUNTER_NAME).unwrap_or(own.interval_ms);
                Settings::SlidingCounter(SlidingCounter { interval_ms, ..*own })
            }
            Own::Token(own) => Settings::Token(own.slowest(interval_ms)),
            Own::Gcra(_) => Settings::Gcra(Pace::SLOWEST),
            Own::Total(own) => Settings::Total(*own),
            Own::Calendar(own) => {
                let known = named(state, CALENDAR_NAME).and_then(|name| {
                    Unit::NAMES.iter().map(|&(_, unit)| unit).find(|&unit| unit as u64 == name)
                });
                let max = slowest_max(own.max, own.debt);
                Settings::Calendar { unit: known.unwrap_or(own.unit), max }
            }
            Own::Distinct(own) => Settings::Max(own.max()),
        }
    }

    /// The word that names the window's length, and its place. `None`: the state does not depend on
    /// the length.
    #[inline]
    fn name(&self, numbers: Option<Settings>) -> Option<(usize, u64)> {
        match (&self.own, numbers) {
            (Own::SlidingCounter(_), Some(Settings::SlidingCounter(call))) => {
                Some((COUNTER_NAME, call.interval_ms))
            }
            (Own::SlidingCounter(own), _) => Some((COUNTER_NAME, own.interval_ms)),
            (Own::Calendar(_), Some(Settings::Calendar { unit, .. })) => {
                Some((CALENDAR_NAME, unit as u64))
            }
            (Own::Calendar(own), _) => Some((CALENDAR_NAME, own.unit as u64)),
            _ => None,
        }
    }

    /// Forgets all of the state, and its history.
    #[cold]
    fn forget(&self, state: &mut [u64]) {
        match self.remembered() {
            None => state.fill(0),
            Some(Remembered { own, at, .. }) => {
                state[own.clone()].fill(0);
                state[at.clone()].fill(0);
            }
        }
    }

    /// Names the length of the window in a state that is not fresh.
    #[inline]
    fn set_name(&self, state: &mut [u64], now: u64, name: Option<(usize, u64)>) {
        let Some((at, name)) = name else { return };
        let (known, since) = (state[at], state[at + 1]);
        state[at..at + 2].fill(0);
        if !self.is_fresh(state) {
            state[at] = name;
            state[at + 1] = if known == name { since } else { now };
        }
    }
}

/// The place of the name in the state of a `calendar` and of a `sliding-counter`. The next word
/// says since when the state counts under that name.
const CALENDAR_NAME: usize = 2;
const COUNTER_NAME: usize = 3;

/// The maximum that pays a debt back last, as a call may bring it.
fn slowest_max(own: u64, debt: u64) -> u64 {
    if debt > 0 { own.min(1) } else { own }
}

fn named(state: &[u64], at: usize) -> Option<u64> {
    state.get(at).copied().filter(|&name| name > 0)
}

impl Own {
    fn new(settings: &conf::Policy) -> Option<Own> {
        Some(match settings {
            conf::Policy::Interval(limit) => Own::Interval(*limit),
            conf::Policy::Sliding(limit) => Own::Sliding(*limit),
            conf::Policy::SlidingCounter(limit) => Own::SlidingCounter(*limit),
            conf::Policy::Token(limit) => Own::Token(Bucket::new(limit)),
            conf::Policy::Gcra(limit) => Own::Gcra(Gcra::new(limit)),
            conf::Policy::Total(limit) => Own::Total(*limit),
            conf::Policy::Calendar(limit) => Own::Calendar(Box::new(ByUnit::new(limit))),
            conf::Policy::Distinct(limit) => Own::Distinct(Box::new(Distinct::new(limit))),
            conf::Policy::Count(_) | conf::Policy::Concurrent(_) => return None,
        })
    }
}

/// Not inlined: the dispatch over policies is in the path of every item.
impl Policy for PerCall {
    #[inline(never)]
    fn remembered(&self) -> Option<&Remembered> {
        match &self.own {
            Own::Calendar(own) => own.remembered.as_ref(),
            Own::Distinct(own) => own.remembered(),
            _ => None,
        }
    }

    /// The length of a window is no part of it.
    fn shape(&self) -> [u64; 2] {
        match &self.own {
            Own::Interval(own) => [own.shape()[0], 0],
            Own::Sliding(own) => [own.shape()[0], 0],
            Own::Calendar(_) => [14, 0],
            Own::SlidingCounter(_) => [15, 0],
            Own::Token(own) => own.shape(),
            Own::Gcra(own) => own.shape(),
            Own::Total(own) => own.shape(),
            Own::Distinct(own) => own.shape(),
        }
    }

    fn words(&self) -> WordNames {
        use WordUnit::{CalendarUnit, Milliseconds, Time, Uses};
        match &self.own {
            Own::Calendar(_) => WordNames::only(&[
                ("start", Time),
                ("used", Uses),
                ("unit", CalendarUnit),
                ("since", Time),
            ]),
            Own::SlidingCounter(_) => WordNames::only(&[
                ("start", Time),
                ("cur", Uses),
                ("prev", Uses),
                ("interval", Milliseconds),
                ("since", Time),
            ]),
            _ => with_numbers!(self, None::<Settings>, limit => limit.words()),
        }
    }

    fn properties(&self) -> Properties {
        with_numbers!(self, None::<Settings>, limit => limit.properties())
    }

    #[inline(never)]
    fn roll(&self, state: &mut [u64], now: u64, terms: &Terms<'_>) {
        let numbers = self.numbers(state, terms);
        let name = self.name(numbers);
        if name.is_some_and(|(at, name)| state[at] != name && state[at] != 0) {
            self.forget(state);
        }
        with_numbers!(self, numbers, limit => limit.roll(state, now, terms));
        self.set_name(state, now, name);
    }

    #[inline(never)]
    fn admits(&self, state: &[u64], now: u64, count: u32, terms: &Terms<'_>) -> bool {
        let numbers = self.numbers(state, terms);
        with_numbers!(self, numbers, limit => limit.admits(state, now, count, terms))
    }

    #[inline(never)]
    fn charge(&self, state: &mut [u64], now: u64, count: i32, terms: &Terms<'_>) {
        let numbers = self.numbers(state, terms);
        with_numbers!(self, numbers, limit => limit.charge(state, now, count, terms));
        self.set_name(state, now, self.name(numbers));
    }

    #[inline(never)]
    fn figures(&self, state: &[u64], now: u64, terms: &Terms<'_>) -> Figures {
        let numbers = self.numbers(state, terms);
        with_numbers!(self, numbers, limit => limit.figures(state, now, terms))
    }

    #[inline(never)]
    fn remaining(&self, state: &[u64], now: u64, terms: &Terms<'_>) -> u64 {
        let numbers = self.numbers(state, terms);
        with_numbers!(self, numbers, limit => limit.remaining(state, now, terms))
    }

    fn retry_ms(&self, state: &[u64], now: u64, count: u32, terms: &Terms<'_>) -> Option<u64> {
        let numbers = self.numbers(state, terms);
        with_numbers!(self, numbers, limit => limit.retry_ms(state, now, count, terms))
    }

    #[inline(never)]
    fn window_ms(&self, state: &[u64], terms: &Terms<'_>) -> Option<u64> {
        let numbers = self.numbers(state, terms);
        with_numbers!(self, numbers, limit => limit.window_ms(state, terms))
    }

    fn quota(&self, terms: &Terms<'_>) -> Option<(u64, Option<u64>)> {
        let numbers = self.numbers(&[], terms);
        with_numbers!(self, numbers, limit => limit.quota(terms))
    }

    #[inline(never)]
    fn level_ns(&self, state: &[u64]) -> u64 {
        with_numbers!(self, None::<Settings>, limit => limit.level_ns(state))
    }

    #[inline(never)]
    fn counts_since(&self, state: &[u64], made_ms: u64) -> bool {
        let is_later = |(at, _): (usize, u64)| state[at + 1] > made_ms;
        !self.name(None).is_some_and(is_later)
            && with_numbers!(self, None::<Settings>, limit => limit.counts_since(state, made_ms))
    }

    /// The bound holds for all numbers that calls bring.
    fn life_ms(&self) -> Option<u64> {
        let longest_ms = self.bounds.max_period_ms;
        match &self.own {
            Own::Calendar(own) if own.debt > 0 => None,
            Own::Calendar(own) => {
                let remembered = own.remembered.as_ref();
                let windows = remembered.map_or(0, |remembered| remembered.past.windows.into());
                longest_ms.checked_mul(2 + windows)
            }
            // The smallest maximum pays its debt back last.
            Own::Interval(Interval { debt, .. }) => {
                Interval { interval_ms: longest_ms, max: 0, debt: *debt }.life_ms()
            }
            Own::SlidingCounter(own) => {
                SlidingCounter { interval_ms: longest_ms, ..*own }.life_ms()
            }
            _ => with_numbers!(self, Some(self.longest(&[])), limit => limit.life_ms()),
        }
    }

    fn end_ms(&self, state: &[u64], last_use_ms: u64) -> Option<u64> {
        if let Own::Gcra(own) = &self.own {
            return Some(own.end_for_calls_ms(state, last_use_ms));
        }
        with_numbers!(self, Some(self.longest(state)), limit => limit.end_ms(state, last_use_ms))
    }

    #[inline(never)]
    fn is_fresh(&self, state: &[u64]) -> bool {
        with_numbers!(self, None::<Settings>, limit => limit.is_fresh(state))
    }

    fn is_kept(&self, state: &[u64]) -> bool {
        with_numbers!(self, None::<Settings>, limit => limit.is_kept(state))
    }

    fn clear(&self, state: &mut [u64]) -> bool {
        let name = named(state, CALENDAR_NAME);
        let is_cleared = with_numbers!(self, None::<Settings>, limit => limit.clear(state));
        if let (Own::Calendar(_), Some(name)) = (&self.own, name) {
            self.set_name(state, 0, Some((CALENDAR_NAME, name)));
        }
        is_cleared
    }
}
