//! Limits: one policy a file, pure functions on settings, state words, `now` and a count.
//!
//! No clock, no store and no allocation in here. All arithmetic is on integers and saturates
//! rather than wraps. A state of zero words is fresh, and so is a window in which nothing is used.
//!
//! One item goes through [`Rules`] in this order, on words copied out of its nodes:
//! 1. [`Rules::roll`] brings the states to `now`; everything after it takes the same `now`.
//! 2. [`Rules::judge`] says whether the item is refused, and by what; [`Rules::details`] the same
//!    of each limit.
//! 3. [`Rules::charge`] or [`Rules::start_ban`], or neither.
//! 4. [`Rules::verdict`] and [`Rules::refigure`] take the figures, which are those after the
//!    command.
//!
//! [`Rules::pass`] is all four of them, where one limit is all there is and lets the item pass.
//!
//! Between 2 and 4 any number of other items may be judged and charged on the same words: that is
//! how an atomic request is judged item by item and answered with figures as stored.

mod calendar;
mod calendar_windows;
mod count;
mod interval;
mod lists;
mod policy;
mod ring;
mod rules;
mod sliding;
mod sliding_counter;
mod state_word;
mod token;
mod total;
mod weight;

pub use calendar_windows::Span;
pub use lists::{Listing, Lists};
pub use rules::{Judgement, Rules, States};
pub use state_word::{StateWord, WordUnit};

/// The most uses a state can hold, 2^53 - 1: what a JSON reader can take for exact.
pub const MAX_USED: u64 = crate::conf::MAX_COUNT;

/// `used` after `count` more, or after a negative `count` given back: never below 0, nor above
/// [`MAX_USED`].
#[inline]
const fn use_more(used: u64, count: i32) -> u64 {
    let magnitude = count.unsigned_abs() as u64;
    if count < 0 {
        used.saturating_sub(magnitude)
    } else {
        let sum = used.saturating_add(magnitude);
        if sum < MAX_USED { sum } else { MAX_USED }
    }
}

/// What an item asks of its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// How much; negative: given back.
    pub count: i32,
    /// It is charged if it is admitted: an Update.
    pub charges: bool,
}

/// How much is lost with a node; what is less is given up first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Worth {
    /// Each limit would roll to fresh, and no ban runs: nothing.
    Expired,
    /// In use, and no limit of the key refuses.
    Idle,
    /// A limit of the key refuses a count of 1.
    Limiting,
    /// A ban runs.
    Banned,
    /// A total in use, or the whole biz's node in use: it cannot be made good.
    Kept,
}

/// What a limit shows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Charged in the current window.
    pub used: u64,
    /// The configured maximum.
    pub max: u64,
    /// What is left.
    pub remaining: u64,
    /// Milliseconds until the window turns; 0 if nothing is used; none if never.
    pub reset_ms: Option<u64>,
}

/// Figures of one limit of an item that asked for detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitFigures {
    /// 1-based index.
    pub index: u16,
    /// The policy's name.
    pub policy: &'static str,
    /// After the command.
    pub figures: Figures,
    /// Milliseconds until this limit would admit the item; none: never, or it does.
    pub retry_ms: Option<u64>,
    /// Does it refuse the item.
    pub limited: bool,
}

/// A list of map.xml that decides an item in place of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// `<allow>` names the key: it passes, and is not counted.
    Allow,
    /// `<deny>` names the key: it is refused.
    Deny,
}

/// A judged item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Refused, or would be.
    pub limited: bool,
    /// A ban refuses.
    pub banned: bool,
    /// It would be refused if its biz were enforced.
    pub shadow: bool,
    /// Nothing was judged: the server limits nothing at the moment.
    pub degraded: bool,
    /// The list that decided.
    pub list: Option<List>,
    /// 1-based index of the limit that decides; 0: none judged.
    pub limit: u16,
    /// 1-based index of the limit whose advice the item carries; 0: none.
    pub advised: u16,
    /// The item's weight in thousandths.
    pub weight: Option<u32>,
    /// Figures of the limit that decides, after the command.
    pub figures: Figures,
    /// Milliseconds until the same item could pass; none: waiting never helps, or it passes.
    pub retry_ms: Option<u64>,
    /// Length of the deciding limit's window, where it has one: `w` of RateLimit-Policy.
    pub window_ms: Option<u64>,
}

impl Verdict {
    /// Where no limit judges: it passes.
    pub const UNJUDGED: Verdict = Verdict {
        limited: false,
        banned: false,
        shadow: false,
        degraded: false,
        list: None,
        limit: 0,
        advised: 0,
        weight: None,
        figures: Figures { used: 0, max: 0, remaining: 0, reset_ms: None },
        retry_ms: None,
        window_ms: None,
    };
}
