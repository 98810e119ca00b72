//! The ledger's functions: the library for the masters, the arguments of each call, and its
//! answers.
//!
//! Invariant: no number is sent that the library would round when it compares or adds it. Hosts and
//! seqs travel as hexadecimal text. Amounts beyond 2^50, the largest maximum of a shared limit, are
//! sent as 2^50.

use std::time::Duration;

use frs_conf::{MAX_SHARED, MAX_SHARED_COUNTER_MS, MAX_SHARED_MS};

use crate::lease::{Granted, Incarnation, Kind, Settings, Take, Taken};
use crate::newest_copy::Starts;

/// The source of the library. Its head describes the arguments and answers of the functions.
pub const LIBRARY: &str = include_str!("ledger.lua");

/// The library's name, which ends in its version.
#[cfg(any(test, feature = "testing"))]
pub const LIBRARY_NAME: &str = "frs_1";

/// Names the hosts with unspent uses. Key: the ledger.
pub const HOLDERS: &str = "frs_1_holders";
/// Reports since when the master has a slot. Key: the key of the slot in
/// [`SlotKeys`](super::name::SlotKeys); no key for a master without slots. See
/// [`heartbeat_arguments`].
pub const HEARTBEAT: &str = "frs_1_heartbeat";
/// Starts to learn in each slot that is new to the master. Key: the slot key of one slot;
/// arguments: the slot keys of the others of the same master.
pub const SLOTS: &str = "frs_1_slots";
/// Keeps the reset epoch of a biz. Key: [`epoch_key`](super::name::epoch_key); argument: the epoch
/// that the host knows; answer: the larger of this epoch and the stored one.
pub const EPOCH: &str = "frs_1_epoch";
/// Start of the error of `EPOCH` where the stored value is not a number.
pub const NO_EPOCH: &str = "ERR frs: the epoch is no number";
/// Keeps the check of the secret. Key: [`secret_key`](super::name::secret_key); argument:
/// [`secret_check`](super::name::secret_check); answer: the stored check.
pub const SECRET: &str = "frs_1_secret";
/// Checks that a host's directory is the newest of its copies, and stores the last start of its
/// server. Key: [`start_key`](super::name::start_key); see [`start_arguments`].
pub const START: &str = "frs_1_start";
/// Lifetime of a stored start after its last report.
const START_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The largest amount: sums over several hosts stay whole in a double.
pub const MAX_AMOUNT: u64 = MAX_SHARED;

/// The longest interval, 557 years: the products of the sliding counter stay whole in a double.
pub const MAX_INTERVAL_MS: u64 = MAX_SHARED_MS;

/// The longest interval of a sliding counter, 34 years. Its windows start at multiples of the
/// interval; 0 names no window.
pub const MAX_COUNTER_MS: u64 = MAX_SHARED_COUNTER_MS;

/// Parts of a token. A period must divide this number.
const TOKEN_PARTS: u64 = 86_400_000;

/// Settings that no ledger can keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The maximum is too large.
    #[error("a shared limit has a max of at most 2^50, not {0}")]
    Max(u64),
    /// The interval is zero or too long.
    #[error("a shared limit has an interval of 1 to 2^44 ms (sliding-counter: 2^40), not {0} ms")]
    Interval(u64),
    /// A window does not end after its start, or does not end before the next one does.
    #[error("a calendar window ends after its start, and the next one after it")]
    Calendar,
    /// The rate or the period of the token bucket is out of range.
    #[error(
        "a shared token bucket has a rate of 1 to 2^50 for a period that 86400000 ms is a \
             multiple of, not {rate} for {period_ms} ms"
    )]
    Rate {
        /// Tokens.
        rate: u64,
        /// The period in milliseconds.
        period_ms: u64,
    },
}

/// The answer of a master to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Milliseconds for which the master grants nothing, as it has only just become master.
    pub learning_ms: u64,
    /// The result of the message.
    pub answer: Answer,
}

/// The result of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The ledger's answer. [`Taken::Nothing`] to a message with a need means that the master
    /// learns.
    Taken(Taken),
    /// The ledger's answer under the smaller maximum of another host.
    Conflict {
        /// The answer.
        taken: Taken,
        /// The least maximum seen lately.
        max: u64,
    },
    /// The master's time is in neither calendar window of the message. Nothing has changed. The
    /// message must be sent again with the windows of that time.
    OtherWindow {
        /// The master's time.
        now_ms: u64,
    },
}

/// Why no answer of a master is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The message, or its answer, was lost. The master may have received the message.
    Lost,
    /// The slot's master is not connected; nothing was sent.
    Down,
    /// No ledger can keep the settings.
    Unfit,
}

/// The answer of a master to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Milliseconds for which it grants nothing in the slot.
    pub learning_ms: u64,
    /// Its time.
    pub now_ms: u64,
    /// When the master got the slot, by its own time; 0 for a master without slots.
    pub since_ms: u64,
}

/// An answer that this version of the library never gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// The numbers do not have the expected form.
    #[error("expected an answer of {expected}, found {found:?}")]
    Numbers {
        /// The expected form.
        expected: &'static str,
        /// The numbers found.
        found: Vec<i64>,
    },
    /// The text is not the name of a host.
    #[error("expected a host as 16 hex digits, found {0:?}")]
    Host(String),
    /// The value is not a list of numbers or names.
    #[error("expected an answer of the library, found {0}")]
    Other(String),
}

/// The arguments of [`START`].
pub fn start_arguments(starts: &Starts) -> [String; 6] {
    [
        hex(starts.next),
        hex(starts.known),
        starts.reports.to_string(),
        hex(starts.before),
        u8::from(starts.may_be_missing()).to_string(),
        START_LIFE.as_millis().to_string(),
    ]
}

/// The function for messages about a limit of this kind. Key: the ledger.
pub const fn function(kind: &Kind) -> &'static str {
    match kind {
        Kind::Interval { .. } => "frs_1_interval",
        Kind::Calendar { .. } => "frs_1_calendar",
        Kind::Total => "frs_1_total",
        Kind::Sliding { .. } => "frs_1_sliding",
        Kind::Token { .. } => "frs_1_token",
        Kind::SlidingCounter { .. } => "frs_1_sliding_counter",
    }
}

/// The arguments of a message, after the key. `slot` is the key of the ledger's slot. It is empty
/// while the slot moves to the server.
///
/// # Errors
/// No ledger can keep the settings.
pub fn arguments(
    settings: &Settings,
    take: &Take,
    learn_ms: u64,
    slot: &str,
) -> Result<Vec<String>, BadSettings> {
    let amount = |amount: u64| amount.min(MAX_AMOUNT).to_string();
    let most = MAX_AMOUNT as i64;
    let own = arguments_of_kind(&settings.kind)?;
    if settings.max > MAX_AMOUNT {
        return Err(BadSettings::Max(settings.max));
    }
    let claim = &take.claim;
    // The ledger cannot compare a seq beyond this bound: it is sent as unknown.
    let is_seq_beyond = claim.window == 0 && claim.floor > MAX_AMOUNT;
    let floor = if is_seq_beyond { 0 } else { claim.floor };
    let mut arguments = vec![
        hex(take.host),
        hex(take.seq),
        claim.window.to_string(),
        amount(floor),
        amount(claim.spent),
        claim.extra.clamp(-most, most).to_string(),
        amount(take.need),
        amount(take.request),
        settings.max.to_string(),
        amount(settings.hosts),
        learn_ms.to_string(),
        slot.to_owned(),
    ];
    arguments.extend(own.into_iter().map(|number| number.to_string()));
    if matches!(settings.kind, Kind::Sliding { .. } | Kind::SlidingCounter { .. }) {
        arguments.push(amount(claim.noted));
    }
    Ok(arguments)
}

fn arguments_of_kind(kind: &Kind) -> Result<Vec<u64>, BadSettings> {
    let (is_kept, numbers, bad) = match *kind {
        Kind::Interval { interval_ms } | Kind::Sliding { interval_ms } => {
            let is_kept = (1..=MAX_INTERVAL_MS).contains(&interval_ms);
            (is_kept, vec![interval_ms], BadSettings::Interval(interval_ms))
        }
        Kind::SlidingCounter { interval_ms } => {
            let is_kept = (1..=MAX_COUNTER_MS).contains(&interval_ms);
            (is_kept, vec![interval_ms], BadSettings::Interval(interval_ms))
        }
        Kind::Calendar { start_ms, end_ms, next_end_ms } => {
            let is_kept = start_ms < end_ms && end_ms < next_end_ms;
            (is_kept, vec![start_ms, end_ms, next_end_ms], BadSettings::Calendar)
        }
        Kind::Total => return Ok(Vec::new()),
        Kind::Token { rate, period_ms } => {
            let is_period = period_ms > 0 && TOKEN_PARTS.is_multiple_of(period_ms);
            let is_kept = (1..=MAX_AMOUNT).contains(&rate) && is_period;
            (is_kept, vec![rate, period_ms], BadSettings::Rate { rate, period_ms })
        }
    };
    is_kept.then_some(numbers).ok_or(bad)
}

/// The arguments of a heartbeat, after the key. A learning master extends its learning while hosts
/// have `claims` to send.
pub fn heartbeat_arguments(learn_ms: u64, claims: bool) -> [String; 2] {
    [learn_ms.to_string(), u8::from(claims).to_string()]
}

/// A host or a number as the library takes it.
pub fn hex(number: u64) -> String {
    format!("{number:016x}")
}

const NOTHING: i64 = 0;
const STALE: i64 = 1;
const GRANTED: i64 = 2;
const OTHER_WINDOW: i64 = 3;

/// Decodes the answer of a master to a message under these settings.
///
/// # Errors
/// Nothing that this version of the library answers.
pub fn decode(settings: &Settings, numbers: &[i64]) -> Result<Reply, BadReply> {
    let decoded = match *numbers {
        [NOTHING, learning] => read(learning).zip(Some(Answer::Taken(Taken::Nothing))),
        [STALE, learning] => read(learning).zip(Some(Answer::Taken(Taken::Stale))),
        [OTHER_WINDOW, learning, now] => {
            read(learning).zip(read(now).map(|now_ms| Answer::OtherWindow { now_ms }))
        }
        [GRANTED, learning, ref grant @ ..] => read(learning).zip(granted(settings, grant)),
        _ => None,
    };
    let decoded = decoded.map(|(learning_ms, answer)| Reply { learning_ms, answer });
    decoded.ok_or_else(|| BadReply::Numbers {
        expected: "2 numbers (0 or 1), 3 (3), 12 (2) or 13 (2, sliding)",
        found: numbers.to_vec(),
    })
}

fn read(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

fn granted(settings: &Settings, grant: &[i64]) -> Option<Answer> {
    let &[window, base, allowance, pool, turn, others, over, max, _holders, left, ref back @ ..] =
        grant
    else {
        return None;
    };
    let back = match (settings.kind, back) {
        (Kind::Sliding { .. }, &[back]) => back,
        (Kind::Sliding { .. }, _) => return None,
        (_, []) => 0,
        _ => return None,
    };
    // -1 means no value.
    let optional = |number: i64| (number >= -1).then(|| read(number));
    let taken = Taken::Granted(Granted {
        window: read(window)?,
        base: optional(base)?,
        allowance: read(allowance)?,
        pool,
        turn_ms: optional(turn)?,
        others: read(others)?,
        over: read(over)?,
        left: read(left)?,
        back: read(back)?,
    });
    let max = read(max)?;
    let is_own = max == settings.max;
    Some(if is_own { Answer::Taken(taken) } else { Answer::Conflict { taken, max } })
}

/// Decodes the answer of a master to a heartbeat.
///
/// # Errors
/// Nothing that this version of the library answers.
pub fn decode_heartbeat(numbers: &[i64]) -> Result<Heartbeat, BadReply> {
    let words: Option<Vec<u64>> = numbers.iter().copied().map(read).collect();
    let Some(&[learning_ms, now_ms, since_ms]) = words.as_deref() else {
        return Err(BadReply::Numbers { expected: "3 numbers", found: numbers.to_vec() });
    };
    Ok(Heartbeat { learning_ms, now_ms, since_ms })
}

/// Decodes a host from the answer of [`HOLDERS`].
///
/// # Errors
/// The text is not the name of a host.
pub fn decode_holder(name: &str) -> Result<Incarnation, BadReply> {
    let is_name = name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let host = is_name.then(|| u64::from_str_radix(name, 16).ok()).flatten();
    host.ok_or_else(|| BadReply::Host(name.to_owned()))
}

/// Whether an error of the server means that it has no library: it is a new master, or one that
/// was not yet synchronized.
pub fn is_library_missing(error: &str) -> bool {
    error.contains("Function not found")
}

#[cfg(test)]
mod tests;
