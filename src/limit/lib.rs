//! Limits: one policy a file, pure functions of settings, state words, `now` and a count.
//!
//! Invariant: there is no clock, no store and no allocation in here. All arithmetic is on integers
//! and saturates instead of wrapping. A state of zero words is fresh, and so is a window in which
//! nothing is used.
//!
//! One item goes through [`Rules`] in this order, on words copied out of its nodes:
//! 1. [`Rules::roll`] brings the states to `now`. Everything after it takes the same `now`.
//! 2. [`Rules::judge`] decides whether a limit refuses the item. [`Rules::details`] does the same
//!    for each limit.
//! 3. [`Rules::charge`] or [`Rules::start_ban`], or neither.
//! 4. [`Rules::verdict`] and [`Rules::refigure`] read the figures as they are after the command.
//!
//! [`Rules::pass`] does all four steps for a lone limit that lets the item pass.
//!
//! Between 2 and 4 any number of other items may be judged and charged on the same words. So an
//! atomic request is judged item by item and answered with the figures as stored.
#![allow(missing_docs, reason = "for the crates above; programs see what `frs` exports")]

mod any_policy;
mod ban;
mod boot_clock;
mod bucket;
mod calendar;
mod calendar_windows;
mod call_numbers;
mod concurrent;
mod count;
mod demand;
mod distinct;
mod gcra;
mod history;
mod history_ring;
mod holds;
mod interval;
mod lists;
mod noted;
mod once_ids;
mod pace;
mod part;
mod per_call;
mod policy;
mod register;
pub mod ring;
mod rules;
mod shared_policy;
mod shared_record;
mod sketch;
mod sliding;
mod sliding_counter;
mod state_word;
mod token;
mod total;
mod uses;
mod verdict;
mod weight;

pub use ban::Ban;
pub use boot_clock::BootClock;
pub use calendar_windows::{Span, window_at};
pub use call_numbers::{CallLimits, CallNumbers};
pub use demand::{Brought, Demand, HoldTerms, Id, Member, Terms, Waited};
pub use history_ring::Remembered;
pub use holds::{Hold, HoldState};
pub use lists::{Listing, Lists};
pub use noted::{Mark, Noted};
pub use pace::Pace;
pub use policy::{Policy, Properties};
pub use register::{Register, RegisterLayout, RegisterValue, TextBytes, is_over};
pub use rules::{HoldStep, Judgement, Rules, SharedRule, States, Worth, Written};
pub use shared_policy::{Log, Passed, SharedPolicies, SharedPolicy};
pub use shared_record::SharedRecord;
pub use state_word::{StateField, StateWord, WordNames, WordUnit};
pub use uses::MAX_USED;
use uses::use_more;
pub use verdict::{AnswerAge, Details, Figures, HistorySpan, LimitFigures, List, Quota, Verdict};
