//! Dispatch: the functions of every policy, each implemented in the file of its name.
//!
//! Invariant: `state` is always exactly the policy's own words of a node, or for `sliding` those of
//! the ring that it shares. A policy keeps state nowhere else.

use frs_conf as conf;
use frs_conf::{Interval, LEASED_WORDS, Sliding, SlidingCounter, Total};

use super::calendar::{self, Calendar};
use super::calendar_windows::Span;
use super::distinct::{self, Distinct, Remembered};
use super::gcra::{self, Gcra};
use super::history::{self, History};
use super::interval::{self, Window};
use super::leased::Leased;
use super::past::{Past, Totals};
use super::sliding_counter::{self, Counters};
use super::state_word::WordUnit;
use super::token::{self, Bucket, Level};
use super::{Demand, Figures, Terms, count, ring, sliding, total};

/// Prepared settings of a limit.
#[derive(Debug, Clone)]
pub(super) enum Policy {
    Interval(Interval),
    Calendar(Box<Calendar>),
    Sliding(Sliding),
    SlidingCounter(SlidingCounter),
    Token(Bucket),
    Gcra(Gcra),
    Total(Total),
    /// None: it never restarts.
    Count(Option<Box<Calendar>>),
    Distinct(Box<Distinct>),
    /// One of the last two that remembers windows.
    History(Box<History>),
    /// Any of these that machines share.
    Leased(Box<Leased>),
}

impl Policy {
    /// Prepares settings. Those with a calendar need the time set before they are used.
    pub fn new(policy: &conf::Policy) -> Policy {
        match policy {
            conf::Policy::Interval(limit) => Policy::Interval(*limit),
            conf::Policy::Calendar(limit) => Policy::Calendar(Box::new(Calendar::new(limit))),
            conf::Policy::Sliding(limit) => Policy::Sliding(*limit),
            conf::Policy::SlidingCounter(limit) => Policy::SlidingCounter(*limit),
            conf::Policy::Token(limit) => Policy::Token(Bucket::new(limit)),
            conf::Policy::Gcra(limit) => Policy::Gcra(Gcra::new(limit)),
            conf::Policy::Total(limit) => Policy::Total(*limit),
            conf::Policy::Count(limit) => {
                Policy::Count(limit.turns.as_ref().map(|turns| Box::new(Calendar::counting(turns))))
            }
            conf::Policy::Distinct(limit) => Policy::Distinct(Box::new(Distinct::new(limit))),
        }
    }

    /// The same with another max; it remembers the same windows.
    pub fn resized(&self, policy: &conf::Policy) -> Policy {
        match (self, Policy::new(policy)) {
            (Policy::Leased(leased), _) => Policy::Leased(Box::new(leased.with_policy(policy))),
            (Policy::History(own), other) => other.with_history(own.past, own.past_at),
            (Policy::Distinct(own), Policy::Distinct(other)) => match own.remembered() {
                Some(remembered) => {
                    Policy::Distinct(Box::new(other.remembering(remembered.clone())))
                }
                None => Policy::Distinct(other),
            },
            (_, other) => other,
        }
    }

    /// The same that remembers windows, if it has natural ones.
    pub fn with_history(self, past: Past, past_at: usize) -> Policy {
        let (calendar, only_counts) = match self {
            Policy::Calendar(calendar) => (*calendar, false),
            Policy::Count(Some(calendar)) => (*calendar, true),
            other => return other,
        };
        Policy::History(Box::new(History { calendar, only_counts, past, past_at }))
    }

    /// The same, a `distinct` one, that remembers windows.
    pub fn remembering(self, remembered: Remembered) -> Policy {
        match self {
            Policy::Distinct(limit) => Policy::Distinct(Box::new(limit.remembering(remembered))),
            other => other,
        }
    }

    /// Sets the time. The result is the span in which it need not be set again.
    pub fn set_now(&mut self, now: u64) -> Span {
        match self {
            Policy::Calendar(limit) => limit.set_now(now),
            Policy::Count(Some(limit)) => limit.set_now(now),
            Policy::Distinct(limit) => {
                limit.turns_mut().map_or(Span::EVER, |turns| turns.set_now(now))
            }
            Policy::History(limit) => limit.calendar.set_now(now),
            _ => Span::EVER,
        }
    }

    /// Takes the time set in another policy of the same calendar.
    pub fn share_now(&mut self, told: &Policy) {
        match (self, told) {
            (Policy::Calendar(own), Policy::Calendar(told))
            | (Policy::Count(Some(own)), Policy::Count(Some(told))) => own.share_now(told),
            (Policy::Distinct(own), Policy::Distinct(told)) => {
                if let (Some(own), Some(told)) = (own.turns_mut(), told.turns()) {
                    own.share_now(told);
                }
            }
            (Policy::History(own), Policy::History(told)) => {
                own.calendar.share_now(&told.calendar);
            }
            _ => {}
        }
    }
}

/// Brings the state to `now`. All other functions take a state rolled at the same `now`, except
/// [`pass`], [`life_ms`] and those of the settings alone. A ring is rolled by its own function.
#[inline]
pub(super) fn roll(policy: &Policy, state: &mut [u64], now: u64, terms: &Terms) {
    match policy {
        Policy::Interval(limit) => store(interval::roll(limit, window(state), now), state),
        Policy::Calendar(limit) => store(calendar::roll(limit, window(state), now), state),
        Policy::Sliding(_) => {}
        Policy::SlidingCounter(limit) => {
            store_counters(sliding_counter::roll(limit, counters(state), now), state);
        }
        Policy::Token(limit) => store_level(token::roll(limit, level(state), now), state),
        Policy::Gcra(limit) => {
            store_level(gcra::roll(&limit.pace(terms.pace), level(state), now), state);
        }
        Policy::Total(_) | Policy::Count(None) => state[0] = total::roll(state[0]),
        Policy::Count(Some(limit)) => store(calendar::roll(limit, window(state), now), state),
        Policy::Distinct(limit) => distinct::roll(limit, state, now),
        Policy::History(limit) => history::roll(limit, state, now),
        Policy::Leased(limit) => limit.roll(state),
    }
}

/// Whether `count` is admitted.
#[inline]
pub(super) fn admits(policy: &Policy, state: &[u64], now: u64, count: u32, terms: &Terms) -> bool {
    match policy {
        Policy::Interval(limit) => interval::admits(limit, window(state), count),
        Policy::Calendar(limit) => calendar::admits(limit, window(state), count),
        Policy::Sliding(limit) => sliding::admits(limit, state, now, count),
        Policy::SlidingCounter(limit) => {
            sliding_counter::admits(limit, counters(state), now, count)
        }
        Policy::Token(limit) => token::admits(limit, level(state), count),
        Policy::Gcra(limit) => gcra::admits(&limit.pace(terms.pace), level(state), count),
        Policy::Total(limit) => total::admits(limit, state[0], count),
        Policy::Count(_) => true,
        Policy::Distinct(limit) => distinct::admits(limit, state, count, terms.member),
        Policy::History(limit) => history::admits(limit, state, count),
        Policy::Leased(limit) => limit.admits(state, count, terms.spending),
    }
}

/// Charges `count`, admitted or not. A negative count gives uses back. A ring is charged by its own
/// function.
#[inline]
pub(super) fn charge(policy: &Policy, state: &mut [u64], now: u64, count: i32, terms: &Terms) {
    match policy {
        Policy::Interval(_) => store(interval::charge(window(state), now, count), state),
        Policy::Calendar(limit) | Policy::Count(Some(limit)) => {
            store(calendar::charge(limit, window(state), count), state);
        }
        Policy::Sliding(_) => {}
        Policy::SlidingCounter(limit) => {
            store_counters(sliding_counter::charge(limit, counters(state), now, count), state);
        }
        Policy::Token(_) => store_level(token::charge(level(state), now, count), state),
        Policy::Gcra(limit) => {
            let pace = limit.pace(terms.pace);
            store_level(gcra::charge(&pace, level(state), now, count), state);
        }
        Policy::Total(_) | Policy::Count(None) => state[0] = total::charge(state[0], count),
        Policy::Distinct(limit) => distinct::charge(limit, state, count, terms.member),
        Policy::History(limit) => history::charge(limit, state, count),
        Policy::Leased(limit) => limit.charge(state, now, count, terms.spending),
    }
}

/// What is told of an item that a lone limit has decided.
#[derive(Debug)]
pub(super) struct Told {
    pub figures: Figures,
    pub window_ms: Option<u64>,
    pub level_ns: u64,
}

/// Everything that most items need: rolls the limit and, if it admits the demand, charges it if the
/// demand charges, and reports its figures and the length of its window. False: it does not admit,
/// and is only rolled. Not for a ring, which is not rolled or charged here.
#[inline(always)]
pub(super) fn pass(
    policy: &Policy,
    state: &mut [u64],
    now: u64,
    demand: Demand<'_>,
    tell: impl FnOnce(Told),
) -> bool {
    debug_assert!(!matches!(policy, Policy::Sliding(_)), "a ring is more than its limit");
    let Policy::Interval(limit) = policy else {
        return step_by_step(policy, state, now, demand).map(tell).is_some();
    };
    let Demand { count, charges, .. } = demand;
    // The common case: one dispatch, and the figures are reported as they are computed.
    let mut window = interval::roll(limit, window(state), now);
    let admitted =
        u32::try_from(count).map_or(true, |count| interval::admits(limit, window, count));
    if admitted && charges {
        window = interval::charge(window, now, count);
    }
    store(window, state);
    if admitted {
        let figures = interval::figures(limit, window, now);
        tell(Told { figures, window_ms: Some(limit.interval_ms), level_ns: 0 });
    }
    admitted
}

/// As [`pass`], for any policy, with a dispatch at each step.
#[inline(never)]
fn step_by_step(policy: &Policy, state: &mut [u64], now: u64, demand: Demand<'_>) -> Option<Told> {
    let Demand { count, charges, terms } = demand;
    roll(policy, state, now, terms);
    if u32::try_from(count).is_ok_and(|count| !admits(policy, state, now, count, terms)) {
        return None;
    }
    if charges {
        charge(policy, state, now, count, terms);
    }
    Some(told(policy, state, now, terms))
}

fn told(policy: &Policy, state: &[u64], now: u64, terms: &Terms) -> Told {
    Told {
        figures: figures(policy, state, now, terms),
        window_ms: window_ms(policy, state, terms),
        level_ns: level_ns(policy, state),
    }
}

/// What is told of an item that [`pass`] does not admit, and how long it has to wait, if that
/// helps.
#[inline]
pub(super) fn refused(
    policy: &Policy,
    state: &[u64],
    now: u64,
    count: u32,
    terms: &Terms,
) -> (Told, Option<u64>) {
    let Policy::Interval(limit) = policy else {
        return (told(policy, state, now, terms), retry_ms(policy, state, now, count, terms));
    };
    let window = window(state);
    let figures = interval::figures(limit, window, now);
    let told = Told { figures, window_ms: Some(limit.interval_ms), level_ns: 0 };
    (told, interval::retry_ms(limit, window, now, count))
}

/// The figures of the limit.
#[inline]
pub(super) fn figures(policy: &Policy, state: &[u64], now: u64, terms: &Terms) -> Figures {
    match policy {
        Policy::Interval(limit) => interval::figures(limit, window(state), now),
        Policy::Calendar(limit) => calendar::figures(limit, window(state), now),
        Policy::Sliding(limit) => sliding::figures(limit, state, now),
        Policy::SlidingCounter(limit) => sliding_counter::figures(limit, counters(state), now),
        Policy::Token(limit) => token::figures(limit, level(state)),
        Policy::Gcra(limit) => gcra::figures(&limit.pace(terms.pace), level(state)),
        Policy::Total(limit) => total::figures(limit, state[0]),
        Policy::Count(Some(limit)) => count::figures_of_turns(limit, window(state), now),
        Policy::Count(None) => count::figures(state[0]),
        Policy::Distinct(limit) => distinct::figures(limit, state, now),
        Policy::History(limit) => history::figures(limit, state, now),
        Policy::Leased(limit) => limit.figures(state),
    }
}

/// Only `remaining` of the figures.
#[inline]
pub(super) fn remaining(policy: &Policy, state: &[u64], now: u64, terms: &Terms) -> u64 {
    match policy {
        Policy::Interval(limit) => interval::remaining(limit, window(state)),
        Policy::Calendar(limit) => calendar::remaining(limit, window(state)),
        Policy::Total(limit) => total::remaining(limit, state[0]),
        Policy::Sliding(_) | Policy::SlidingCounter(_) | Policy::Token(_) | Policy::Gcra(_) => {
            figures(policy, state, now, terms).remaining
        }
        Policy::History(limit) => history::remaining(limit, state),
        Policy::Leased(limit) => limit.remaining(state),
        Policy::Count(_) => 0,
        Policy::Distinct(limit) => distinct::remaining(limit, state),
    }
}

/// Milliseconds until a refused `count` would be admitted. None: never.
pub(super) fn retry_ms(
    policy: &Policy,
    state: &[u64],
    now: u64,
    count: u32,
    terms: &Terms,
) -> Option<u64> {
    match policy {
        Policy::Interval(limit) => interval::retry_ms(limit, window(state), now, count),
        Policy::Calendar(limit) => calendar::retry_ms(limit, window(state), now, count),
        Policy::Sliding(limit) => sliding::retry_ms(limit, state, now, count),
        Policy::SlidingCounter(limit) => {
            sliding_counter::retry_ms(limit, counters(state), now, count)
        }
        Policy::Token(limit) => token::retry_ms(limit, level(state), count),
        Policy::Gcra(limit) => gcra::retry_ms(&limit.pace(terms.pace), level(state), count),
        Policy::Total(_) | Policy::Count(_) => None,
        Policy::Distinct(limit) => distinct::retry_ms(limit, state, now),
        Policy::History(limit) => history::retry_ms(limit, state, now, count),
        Policy::Leased(limit) => limit.retry_ms(state, count),
    }
}

/// What the limit grants in a window, in uses, and how long that is. What a calendar limit lends is
/// granted, too. None: it only counts.
pub(super) fn quota(policy: &Policy, terms: &Terms) -> Option<(u64, Option<u64>)> {
    let turning = |calendar: &Calendar| Some(calendar.current_ms());
    Some(match policy {
        Policy::Interval(limit) => (limit.max.saturating_add(limit.debt), Some(limit.interval_ms)),
        Policy::Calendar(limit) => (limit.ceiling(), turning(limit)),
        Policy::Sliding(limit) => (limit.max, Some(limit.interval_ms)),
        Policy::SlidingCounter(limit) => (limit.max, Some(limit.interval_ms)),
        Policy::Token(limit) => (limit.burst(), Some(token::fill_ms(limit))),
        Policy::Gcra(limit) => {
            let pace = limit.pace(terms.pace);
            (pace.burst(), Some(gcra::fill_ms(&pace)))
        }
        Policy::Total(limit) => (limit.max, None),
        Policy::Count(_) => return None,
        Policy::Distinct(limit) if limit.only_counts() => return None,
        Policy::Distinct(limit) => (limit.max(), limit.turns().and_then(turning)),
        Policy::History(limit) if limit.only_counts => return None,
        Policy::History(limit) => (limit.calendar.ceiling(), turning(&limit.calendar)),
        Policy::Leased(limit) if limit.only_counts() => return None,
        Policy::Leased(limit) => (limit.shown_max, limit.window_ms()),
    })
}

/// Whether it lends uses beyond its maximum.
pub(super) fn lends(policy: &Policy) -> bool {
    match policy {
        Policy::Interval(limit) => limit.debt > 0,
        Policy::Calendar(limit) => limit.lends(),
        Policy::History(limit) => limit.calendar.lends(),
        _ => false,
    }
}

/// Length of the limit's window, if it has one.
#[inline]
pub(super) fn window_ms(policy: &Policy, state: &[u64], terms: &Terms) -> Option<u64> {
    match policy {
        Policy::Interval(limit) => Some(limit.interval_ms),
        Policy::Calendar(limit) => Some(calendar::window_ms(limit, window(state))),
        Policy::Sliding(limit) => Some(limit.interval_ms),
        Policy::SlidingCounter(limit) => Some(limit.interval_ms),
        Policy::Token(limit) => Some(token::fill_ms(limit)),
        Policy::Gcra(limit) => Some(gcra::fill_ms(&limit.pace(terms.pace))),
        Policy::Total(_) | Policy::Count(_) => None,
        Policy::Distinct(limit) => distinct::window_ms(limit, state),
        Policy::History(limit) => history::window_ms(limit, state),
        Policy::Leased(limit) => limit.window_ms(),
    }
}

/// Nanoseconds until a rolled `gcra` is fresh. 0 of any other policy.
#[inline]
pub(super) fn level_ns(policy: &Policy, state: &[u64]) -> u64 {
    match policy {
        Policy::Gcra(_) => level(state).level,
        _ => 0,
    }
}

/// An upper bound of the milliseconds from the last use until the state is fresh. None: forever.
pub(super) fn life_ms(policy: &Policy) -> Option<u64> {
    match policy {
        Policy::Interval(limit) => interval::life_ms(limit),
        Policy::Calendar(limit) => calendar::life_ms(limit),
        Policy::Sliding(limit) => Some(sliding::life_ms(limit)),
        Policy::SlidingCounter(limit) => Some(sliding_counter::life_ms(limit)),
        Policy::Token(limit) => token::life_ms(limit),
        Policy::Gcra(_) => Some(gcra::life_ms()),
        Policy::Total(_) | Policy::Count(None) => None,
        Policy::Count(Some(limit)) => calendar::life_ms(limit),
        Policy::Distinct(limit) => distinct::life_ms(limit),
        Policy::History(limit) => history::life_ms(limit),
        Policy::Leased(limit) => limit.life_ms(),
    }
}

/// The end of a state, as far as it is known from the state itself: from then on it is fresh. None:
/// only [`life_ms`] tells.
pub(super) fn end_ms(policy: &Policy, state: &[u64], last_use_ms: u64) -> Option<u64> {
    match policy {
        Policy::Token(limit) => Some(token::end_ms(limit, level(state), last_use_ms)),
        Policy::Gcra(limit) => Some(gcra::end_ms(limit, level(state), last_use_ms)),
        _ => None,
    }
}

/// Whether a rolled state is fresh.
#[inline]
pub(super) fn is_fresh(policy: &Policy, state: &[u64]) -> bool {
    match policy {
        Policy::Sliding(_) => ring::is_fresh(state),
        Policy::History(limit) => history::is_fresh(limit, state),
        Policy::Leased(limit) => limit.is_fresh(state),
        Policy::Distinct(limit) => distinct::is_fresh(limit, state),
        _ => state.iter().all(|&word| word == 0),
    }
}

/// Whether the loss of a state in use cannot be repaired.
pub(super) fn is_kept(policy: &Policy, state: &[u64]) -> bool {
    match policy {
        Policy::Total(_) => true,
        Policy::Distinct(limit) => distinct::is_kept(limit),
        Policy::Leased(limit) => limit.is_kept(state),
        _ => false,
    }
}

/// The leases of a shared limit.
#[inline]
pub(super) fn leased(policy: &Policy) -> Option<&Leased> {
    match policy {
        Policy::Leased(limit) => Some(limit),
        _ => None,
    }
}

/// The standard error of `used`, in thousandths. None: it is no estimate of a sketch.
pub(super) fn error_thousandths(policy: &Policy) -> Option<u16> {
    match policy {
        Policy::Distinct(limit) => limit.error_thousandths(),
        _ => None,
    }
}

/// What the limit remembers of the windows before, the newest first. None: it keeps no history.
#[inline]
pub(super) fn totals<'w>(policy: &Policy, state: &'w [u64]) -> Option<Totals<'w>> {
    match policy {
        Policy::History(limit) => Some(limit.totals(state)),
        Policy::Distinct(limit) => limit.totals(state),
        _ => None,
    }
}

/// The settings of its history, and its first word in the state.
#[inline]
pub(super) fn past(policy: &Policy) -> Option<(Past, usize)> {
    match policy {
        Policy::History(limit) => Some((limit.past, limit.past_at)),
        Policy::Distinct(limit) => {
            limit.remembered().map(|remembered| (remembered.past, remembered.at.start))
        }
        _ => None,
    }
}

/// How many words [`own`] takes of a longer state. None: all.
pub(super) fn own_words(policy: &Policy) -> Option<usize> {
    match policy {
        Policy::Distinct(limit) => limit.remembered().map(|remembered| remembered.own.len()),
        _ => None,
    }
}

/// The unit of the words behind the named ones: of a sketch its registers, of a set its members.
pub(super) fn members_word(policy: &Policy) -> Option<WordUnit> {
    match policy {
        Policy::Distinct(limit) if limit.precision().is_some() => Some(WordUnit::Registers),
        Policy::Distinct(_) => Some(WordUnit::Fingerprint),
        _ => None,
    }
}

/// Forgets what the limit has used, but not what it remembers of windows before. The state is to be
/// rolled again.
pub(super) fn clear(policy: &Policy, state: &mut [u64]) {
    match policy {
        Policy::History(limit) => history::clear_window(limit, state),
        Policy::Distinct(limit) => distinct::clear_window(limit, state),
        _ => state.fill(0),
    }
}

/// The names and units of the state's first words. Empty for a ring, which is shared, and without a
/// history, which is apart.
pub(super) fn word_names(policy: &Policy) -> &'static [(&'static str, WordUnit)] {
    use WordUnit::{Fields, Members, Nanoseconds, Time, TokenParts, Uses};
    match policy {
        Policy::Interval(_) | Policy::Calendar(_) | Policy::Count(Some(_)) | Policy::History(_) => {
            &[("start", Time), ("used", Uses)]
        }
        Policy::Sliding(_) => &[],
        Policy::SlidingCounter(_) => &[("start", Time), ("cur", Uses), ("prev", Uses)],
        Policy::Token(_) => &[("level", TokenParts), ("last", Time)],
        Policy::Gcra(_) => &[("level", Nanoseconds), ("last", Time)],
        Policy::Total(_) | Policy::Count(None) => &[("used", Uses)],
        Policy::Distinct(_) => &[("start", Time), ("used", Members)],
        Policy::Leased(_) => &[("lease", Fields); LEASED_WORDS],
    }
}

/// What the meaning of the state's words depends on: the kind's number, which is part of the file
/// format, and its interval or unit.
pub(super) fn shape(policy: &Policy) -> [u64; 2] {
    match policy {
        Policy::Interval(limit) => [1, limit.interval_ms],
        Policy::Total(_) => [2, 0],
        Policy::Calendar(limit) => [3, limit.unit() as u64],
        Policy::Sliding(limit) => [4, limit.interval_ms],
        Policy::SlidingCounter(limit) => [5, limit.interval_ms],
        Policy::Token(_) => [6, 0],
        Policy::Gcra(_) => [8, 0],
        Policy::Leased(limit) => limit.shape(),
        Policy::History(limit) if limit.only_counts => [7, limit.calendar.unit() as u64],
        Policy::History(limit) => [3, limit.calendar.unit() as u64],
        Policy::Count(limit) => [7, limit.as_ref().map_or(0, |limit| limit.unit() as u64)],
        Policy::Distinct(limit) => {
            let (unit, precision) = (limit.unit().map_or(0, |unit| unit as u64), limit.precision());
            precision.map_or([10, unit], |precision| [11, u64::from(precision) << 8 | unit])
        }
    }
}

#[inline]
fn window(state: &[u64]) -> Window {
    Window { start: state[0], used: state[1] }
}

#[inline]
fn store(window: Window, state: &mut [u64]) {
    state[0] = window.start;
    state[1] = window.used;
}

#[inline]
fn counters(state: &[u64]) -> Counters {
    Counters { start: state[0], cur: state[1], prev: state[2] }
}

#[inline]
fn store_counters(counters: Counters, state: &mut [u64]) {
    state[0] = counters.start;
    state[1] = counters.cur;
    state[2] = counters.prev;
}

#[inline]
fn level(state: &[u64]) -> Level {
    Level { level: state[0], last: state[1] }
}

#[inline]
fn store_level(level: Level, state: &mut [u64]) {
    state[0] = level.level;
    state[1] = level.last;
}
