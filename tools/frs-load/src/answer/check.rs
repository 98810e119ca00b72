//! Checks which answers a request may get.
//!
//! Invariant: each rule follows from the protocol alone, whatever limits the biz has and whatever
//! other clients use it. So an answer that breaks a rule is wrong, whatever the configuration.

use frs_engine::Command;

use super::head::Reply;
use super::said::{RequestError, Said, number};
use super::{json, resp, xml};
use crate::arguments::{Arguments, Format, KeyType};
use crate::call::{Call, ItemCall};
use crate::keys::write_key;

/// The verdict on an item, named as in the server's own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Limited,
    Banned,
    Shadowed,
    Degraded,
    Listed,
}

/// All verdicts with their names, in the order in which they are shown.
pub const VERDICTS: [(Verdict, &str); 6] = [
    (Verdict::Allowed, "allowed"),
    (Verdict::Limited, "limited"),
    (Verdict::Banned, "banned"),
    (Verdict::Shadowed, "shadowed"),
    (Verdict::Degraded, "degraded"),
    (Verdict::Listed, "listed"),
];

/// The outcome of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Verdict(Verdict),
    /// An error caused by the server's state, not by the request.
    Error(&'static str),
}

/// What an answer says of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    pub key: u32,
    pub outcome: Outcome,
    /// The window of the limit that decides; none if nothing is used in it, or it never turns.
    pub window: Option<Turn>,
}

/// A window that turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub max: u64,
    /// From the answer on.
    pub turns_in_ms: u64,
}

/// A request, as far as its answer depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub keys: &'a [u32],
    /// The place of its first item in the run.
    pub first: u64,
    pub call: &'a Call,
    /// It was sent before, and its answer was lost.
    pub again: bool,
}

/// An item, as far as its answer depends on it.
#[derive(Debug, Clone, Copy)]
struct AskedItem {
    item: ItemCall,
    partial: bool,
    may_repeat: bool,
}

impl Asked<'_> {
    fn item(&self, nth: u64) -> AskedItem {
        let item = self.call.item(self.first.wrapping_add(nth));
        let may_repeat = self.again || item.hold.is_some();
        AskedItem { item, partial: self.call.partial, may_repeat }
    }
}

/// Item errors that a valid request can get.
const ITEM_ERRORS: [&str; 4] = ["busy", "full", "full-holds", "store"];
/// Errors of a whole request that a valid one can get.
const REQUEST_ERRORS: [(u16, &str); 2] = [(408, "timeout"), (503, "overloaded")];

/// Checks the answers of a run.
#[derive(Debug, Clone)]
pub struct Checker {
    command: Command,
    biz: String,
    key_type: KeyType,
    format: Format,
    key: String,
}

impl Checker {
    pub fn new(arguments: &Arguments) -> Checker {
        Checker {
            command: arguments.command(),
            biz: arguments.biz.clone(),
            key_type: arguments.key_type,
            format: arguments.format(),
            key: String::new(),
        }
    }

    /// Passes what is said of each item of the request to `note`, or returns what is wrong.
    pub fn check(
        &mut self,
        reply: &Reply<'_>,
        asked: Asked<'_>,
        mut note: impl FnMut(Noted),
    ) -> Result<(), String> {
        let keys = asked.keys;
        let state = match self.format {
            Format::Xml | Format::Json if reply.status != 200 => Some(error(reply)?),
            Format::Xml | Format::Json => None,
            Format::Resp => resp::state_error(reply.body),
        };
        if let Some(error) = state {
            let outcome = Outcome::Error(error);
            keys.iter().for_each(|&key| note(Noted { key, outcome, window: None }));
            return Ok(());
        }
        let format = self.format;
        if format != Format::Resp && is_json(reply)? != (format == Format::Json) {
            return Err(format!("Content-Type: {} is not what was asked for", reply.content_type));
        }
        let mut place = 0;
        let judge = |said: &Said<'_>| {
            let key = *keys.get(place).ok_or("more items than were asked")?;
            let outcome = self.item(said, key, asked.item(place as u64));
            place += 1;
            let outcome = outcome.map_err(|what| format!("item {place}: {what}"))?;
            if keys.len() == 1 && format != Format::Resp {
                single_fields(reply, said)?;
            }
            note(Noted { key, outcome, window: turn(said) });
            Ok(())
        };
        match format {
            Format::Xml => xml::read_items(reply.body, judge),
            Format::Json => json::read_items(reply.body, judge),
            Format::Resp => resp::read_items(reply.body, keys.len() == 1, judge),
        }?;
        if place < keys.len() {
            return Err(format!("{place} items, expected {}", keys.len()));
        }
        Ok(())
    }

    fn item(&mut self, said: &Said<'_>, key: u32, asked: AskedItem) -> Result<Outcome, String> {
        self.key.clear();
        write_key(&mut self.key, self.key_type, key);
        // RESP does not echo what was asked.
        let [biz, key] = match self.format {
            Format::Xml | Format::Json => [Some(self.biz.as_str()), Some(self.key.as_str())],
            Format::Resp => [None, None],
        };
        if said.biz.as_deref() != biz || said.key.as_deref() != key {
            return Err(format!("not an answer to biz {}, key {}", self.biz, self.key));
        }
        if let Some(error) = &said.error {
            let alone = Said {
                biz: said.biz.clone(),
                key: said.key.clone(),
                error: said.error.clone(),
                ..Said::default()
            };
            return item_error(error, *said == alone).map(Outcome::Error);
        }
        let limited = said.is_limited.ok_or("neither limited nor error")?;
        let fault = shape_fault(said, limited).or_else(|| call_fault(said, limited, asked));
        let fault = fault.or_else(|| {
            // Those of a shared limit are of all machines, at an earlier time. And where some
            // remains, no lease of it may have come in time.
            let figures = Figures::of(said).filter(|_| said.is_shared.is_none())?;
            figures
                .fault(said)
                .or_else(|| figures.verdict_fault(said, limited, asked, self.command))
        });
        fault.map_or(Ok(Outcome::Verdict(verdict(said, limited))), |fault| Err(fault.to_owned()))
    }
}

/// The format of the body. An error can precede the server's knowledge of the request's format.
fn is_json(reply: &Reply<'_>) -> Result<bool, String> {
    match reply.content_type {
        "application/json" => Ok(true),
        "application/xml" => Ok(false),
        other => Err(format!("status {}, Content-Type: {other}", reply.status)),
    }
}

/// The error of a whole request, if the server's state caused it.
fn error(reply: &Reply<'_>) -> Result<&'static str, String> {
    let read = if is_json(reply)? { json::read_error } else { xml::read_error };
    let RequestError { code, words } = read(reply.body)?;
    let known = REQUEST_ERRORS.iter().find(|known| **known == (reply.status, &code));
    known.map(|(_, code)| *code).ok_or_else(|| format!("status {}, {code}: {words}", reply.status))
}

fn item_error(error: &str, alone: bool) -> Result<&'static str, String> {
    match ITEM_ERRORS.iter().find(|known| **known == error) {
        Some(_) if !alone => Err(format!("{error} beside other attributes")),
        Some(known) => Ok(known),
        None => Err(format!("{error}; see --biz and --key-type")),
    }
}

fn turn(said: &Said<'_>) -> Option<Turn> {
    let turns_in_ms = said.reset_ms.filter(|&reset| reset > 0)?;
    Some(Turn { max: said.max?, turns_in_ms })
}

/// The first verdict that applies, as the server counts.
fn verdict(said: &Said<'_>, limited: bool) -> Verdict {
    match said {
        Said { is_degraded: Some(true), .. } => Verdict::Degraded,
        Said { list: Some(_), .. } => Verdict::Listed,
        Said { is_shadow: Some(true), .. } => Verdict::Shadowed,
        Said { is_banned: Some(true), .. } => Verdict::Banned,
        _ if limited => Verdict::Limited,
        _ => Verdict::Allowed,
    }
}

/// Which attributes may occur together.
fn shape_fault(said: &Said<'_>, limited: bool) -> Option<&'static str> {
    let figures = [said.limit, said.used, said.max, said.remaining];
    let some = figures.iter().flatten().count();
    let (list, none) = (said.list.as_deref(), some == 0);
    let rules = [
        (some.is_multiple_of(4), "limit, used, max and remaining stand together or not at all"),
        (!none || said.reset_ms.is_none(), "reset without a limit"),
        (said.retry_ms.is_none() || limited, "retry where nothing is limited"),
        (said.retry_ms != Some(0), "limited, and may retry at once"),
        (said.is_banned.is_none_or(|banned| banned && limited), "banned, and not limited"),
        (said.is_shadow.is_none_or(|shadow| shadow && !limited), "shadow, and limited"),
        (said.is_degraded.is_none_or(|is_so| is_so && !limited && none), "degraded, and judged"),
        (matches!(list, None | Some("allow" | "deny")), "a list of another name"),
        (list.is_none() || none, "decided by a list, and judged"),
        (list != Some("allow") || !limited, "on the list of the allowed, and limited"),
        (list != Some("deny") || said.retry_ms.is_none(), "retry on the list of the denied"),
        (list.is_some() || !none || !limited, "limited by nothing"),
        (!none || said.is_banned.is_none(), "banned by nothing"),
        (said.limit != Some(0), "limits are counted from 1"),
        (said.is_shared != Some(false), "shared is true or not said"),
        (said.is_shared.is_none() || !none, "shared, and judged by no limit"),
        (said.age_ms.is_none() || said.is_shared.is_some(), "an age of what is not shared"),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, fault)| *fault)
}

/// Whether what is said of the call's own options fits them.
fn call_fault(said: &Said<'_>, limited: bool, asked: AskedItem) -> Option<&'static str> {
    let AskedItem { item: ItemCall { count, hold }, partial, may_repeat } = asked;
    let granted = said.granted;
    let held = said.held.map(|held| !limited && held < u64::from(count));
    let rules = [
        (granted.is_none() || partial, "granted, and not partial"),
        (granted.is_some() || !partial || said.limit.is_none(), "partial, and nothing granted"),
        (granted.is_none_or(|granted| granted <= count.into()), "more is granted than was asked"),
        (granted.is_none_or(|granted| limited == (granted == 0)), "limited is granted 0"),
        (said.repeated != Some(false), "repeated is true or not said"),
        (said.repeated.is_none() || may_repeat, "repeated, and was not sent before"),
        (said.repeated.is_none() || !limited, "repeated, and limited"),
        (said.unknown_hold.is_none(), "a hold is not known, and none was settled"),
        (hold.is_none() || said.limit.is_none() || held.is_some(), "a hold, and nothing held"),
        (hold.is_none() || held != Some(true), "less is held than the hold"),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, fault)| *fault)
}

/// The figures of the limit that decides.
struct Figures {
    used: u64,
    max: u64,
    remaining: u64,
}

impl Figures {
    fn of(said: &Said<'_>) -> Option<Figures> {
        Some(Figures { used: said.used?, max: said.max?, remaining: said.remaining? })
    }

    /// Rules of every policy. The available use is max plus, under some policies, a debt.
    fn fault(&self, said: &Said<'_>) -> Option<&'static str> {
        let fresh = said.reset_ms == Some(0);
        let rules = [
            (self.used + self.remaining >= self.max, "used and remaining are less than max"),
            (fresh == (self.used == 0), "reset is 0 where nothing is used, and only there"),
        ];
        rules.iter().find(|(holds, _)| !holds).map(|(_, fault)| *fault)
    }

    /// Whether the verdict on the count fits. A limit that advises is charged beyond its max, a
    /// shadow is not charged, and a limit without a max only counts. A repeat is judged by its
    /// first time, and a hold by what it held before.
    fn verdict_fault(
        &self,
        said: &Said<'_>,
        limited: bool,
        asked: AskedItem,
        command: Command,
    ) -> Option<&'static str> {
        let is_other = said.action.is_some() || said.is_shadow.is_some();
        if is_other || said.repeated.is_some() || asked.item.hold.is_some() {
            return None;
        }
        // What is limited lacks room for the count, or for one use of it.
        let count = u64::from(asked.item.count);
        let least = if asked.partial { 1 } else { count };
        let passes = said.granted.unwrap_or(count);
        let passed = !limited;
        let charged = passed && command == Command::Update;
        let queried = passed && command == Command::Query && self.max > 0;
        let rules = [
            (said.is_banned.is_some() || passed || self.remaining < least, "limited, and it fits"),
            (!charged || self.used > 0, "allowed, and not charged"),
            (!queried || self.remaining >= passes, "would be allowed, and does not fit"),
        ];
        rules.iter().find(|(holds, _)| !holds).map(|(_, fault)| *fault)
    }
}

/// For a single item the head must agree with the document.
fn single_fields(reply: &Reply<'_>, said: &Said<'_>) -> Result<(), String> {
    let shown = |field: Option<&[u8]>| {
        field.map_or_else(|| "none".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
    };
    if reply.retry_after.is_some() {
        return Err(format!("Retry-After: {} in a 200", shown(reply.retry_after)));
    }
    let waits = said.retry_ms.map(|ms| ms.div_ceil(1000).max(1));
    let is_banned = said.is_banned == Some(true);
    let reset = said.reset_ms.map(|ms| ms.div_ceil(1000));
    let seconds = match waits {
        waits if is_banned => waits,
        Some(waits) => reset.map(|reset| reset.min(waits)),
        None => reset,
    };
    let remaining = if is_banned { Some(0) } else { said.remaining };
    if reply.rate_limit.is_some() != said.remaining.is_some()
        || parameter(reply.rate_limit, b'r') != remaining.map(integer)
        || parameter(reply.rate_limit, b't') != seconds.map(integer)
    {
        return Err(format!("RateLimit: {} does not fit", shown(reply.rate_limit)));
    }
    let policy = reply.rate_limit_policy;
    if policy.is_some() != said.max.is_some() || !fits(policy, reply.rate_limit, said) {
        return Err(format!("RateLimit-Policy: {} does not fit", shown(policy)));
    }
    Ok(())
}

/// Whether the policy that RateLimit names has the maximum, or more where a debt is lent.
fn fits(policies: Option<&[u8]>, rate_limit: Option<&[u8]>, said: &Said<'_>) -> bool {
    let (Some(policies), Some(rate_limit), Some(max)) = (policies, rate_limit, said.max) else {
        return policies.is_none() && rate_limit.is_none();
    };
    let name = |item: &[u8]| item.split(|&byte| byte == b';').next().map(<[u8]>::to_vec);
    let named = |policy: &&[u8]| name(policy.trim_ascii()) == name(rate_limit);
    let policy = policies.split(|&byte| byte == b',').find(named);
    parameter(policy, b'q').is_some_and(|quota| quota >= integer(max))
}

/// A number as structured fields hold it.
fn integer(number: u64) -> u64 {
    number.min(999_999_999_999_999)
}

/// The value of `;name=`, where the name is one letter.
fn parameter(field: Option<&[u8]>, name: u8) -> Option<u64> {
    let mut parameters = field?.split(|&byte| byte == b';').skip(1);
    parameters.find_map(|part| match part {
        [found, b'=', value @ ..] if *found == name => Some(number(value)),
        _ => None,
    })?
}

#[cfg(test)]
mod tests;
