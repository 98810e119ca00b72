//! A question to a master: its command, and the meaning of an answer or of a loss.
//!
//! Invariant: the meaning of an answer follows from the task alone, whichever node has answered.

use frs_conf::{ClusterNode, MAX_EPOCH};
use redis::{Cmd, ToRedisArgs, Value, cmd};

use super::link_events::{Event, Id, Lost, Message};
use super::message_counts;
use super::topology::{Redirection, text};
use crate::figures::{ClusterFunction, ClusterResult};
use crate::lease::Taken;
use crate::ledger::{Answer, BadReply};
use crate::name::SlotKeys;
use crate::newest_copy::Starts;
use crate::warm::{WarmAnswer, WarmCall, WarmMessage};
use crate::{ledger, name};

const MAX_EPOCH_NUMBER: i64 = MAX_EPOCH as i64;

/// A question to a master. `Slots` has it start to learn in those of the slots that are new to it.
#[derive(Debug, Clone)]
pub(super) enum Task {
    Message(Message),
    Warm(WarmMessage),
    Publish { ledger: String, channel: String, payload: Vec<u8> },
    Holders { id: Id, ledger: String },
    Epoch { biz: u64, known: u64, key: String },
    Secret { key: String, check: String },
    Start { starts: Starts, key: String },
    Slots(Vec<u16>),
}

/// The end of a job.
#[derive(Debug)]
pub(super) enum Settled {
    /// An event for the owner.
    Event(Event),
    /// The check of the secret in the cluster.
    Secret(Result<String, Lost>),
    /// Another node must be asked.
    Redirected { task: Task, redirection: Redirection, redirected: u32 },
    /// Nobody waits for the result.
    Silent,
    /// The slots may not have begun to learn. `is_redirected`: the first one has another master.
    Unmet { slots: Vec<u16>, is_redirected: bool },
}

impl Task {
    /// The slot of its key.
    pub(super) fn slot(&self) -> u16 {
        let key = match self {
            Task::Message(message) => &message.ledger,
            Task::Warm(message) => &message.key,
            Task::Publish { ledger, .. } | Task::Holders { ledger, .. } => ledger,
            Task::Epoch { key, .. } | Task::Secret { key, .. } | Task::Start { key, .. } => key,
            Task::Slots(slots) => return slots[0],
        };
        name::slot(key.as_bytes())
    }

    /// The function that it is counted under.
    pub(super) fn function(&self) -> ClusterFunction {
        match self {
            Task::Message(message) => message_counts::function_of_kind(&message.settings.kind),
            Task::Warm(message) => message_counts::function_of_call(&message.call),
            Task::Publish { .. } => ClusterFunction::Publish,
            Task::Holders { .. } => ClusterFunction::Holders,
            Task::Epoch { .. } => ClusterFunction::Epoch,
            Task::Secret { .. } => ClusterFunction::Secret,
            Task::Start { .. } => ClusterFunction::Start,
            Task::Slots(_) => ClusterFunction::Heartbeat,
        }
    }

    /// Whether it is about the ledger or the record of a key, so that an item may wait for it.
    pub(super) fn is_of_key(&self) -> bool {
        matches!(self, Task::Message(_) | Task::Warm(_) | Task::Holders { .. })
    }

    /// Whether replicas should acknowledge it. A start that a failover loses is reported again
    /// within a second.
    pub(super) fn writes(&self) -> bool {
        match self {
            Task::Message(_) | Task::Warm(_) | Task::Epoch { .. } | Task::Secret { .. } => true,
            Task::Publish { .. } | Task::Holders { .. } | Task::Start { .. } | Task::Slots(_) => {
                false
            }
        }
    }

    /// The command. `asking`: its slot is still moving to the node.
    pub(super) fn command(
        &self,
        learn_ms: u64,
        slots: &SlotKeys,
        asking: bool,
    ) -> Result<Cmd, ledger::BadSettings> {
        Ok(match self {
            Task::Message(Message { ledger, settings, take, .. }) => {
                let slot = if asking { String::new() } else { slots.of(self.slot()) };
                let arguments = ledger::arguments(settings, take, learn_ms, &slot)?;
                call(ledger::function(&settings.kind), ledger, arguments)
            }
            Task::Warm(message) => call(message.function(), &message.key, message.arguments()),
            Task::Publish { channel, payload, .. } => {
                let mut command = cmd("PUBLISH");
                command.arg(channel).arg(&payload[..]);
                command
            }
            Task::Holders { ledger, .. } => call(ledger::HOLDERS, ledger, None::<String>),
            Task::Epoch { key, known, .. } => call(ledger::EPOCH, key, known),
            Task::Secret { key, check } => call(ledger::SECRET, key, check),
            Task::Start { starts, key } => {
                call(ledger::START, key, &ledger::start_arguments(starts)[..])
            }
            Task::Slots(numbers) => {
                let keys: Vec<String> = numbers.iter().map(|slot| slots.of(*slot)).collect();
                call(ledger::SLOTS, &keys[0], &keys[1..])
            }
        })
    }

    /// The end of the job, and the result that it is counted as: by the answer of a node, or by the
    /// reason why there is none.
    pub(super) fn settle(
        self,
        answer: Result<(&Value, &ClusterNode), Lost>,
    ) -> (Settled, ClusterResult) {
        match self {
            Task::Message(Message { id, settings, .. }) => settled(
                read(answer, |value| {
                    let numbers: Option<Vec<i64>> = list(value, |item| match item {
                        Value::Int(number) => Some(*number),
                        _ => None,
                    });
                    ledger::decode(&settings, &numbers.ok_or_else(|| strange(value))?)
                }),
                |reply| match reply.answer {
                    Answer::Taken(Taken::Stale) => ClusterResult::Stale,
                    _ if reply.learning_ms > 0 => ClusterResult::Learning,
                    _ => ClusterResult::Ok,
                },
                |result| {
                    let function = message_counts::function_of_kind(&settings.kind);
                    Settled::Event(Event::Answered { id, function, result })
                },
            ),
            Task::Warm(message) => settled(
                read(answer, |value| warm(&message, value).ok_or_else(|| strange(value))),
                |answer| match answer {
                    WarmAnswer::Old => ClusterResult::Stale,
                    _ => ClusterResult::Ok,
                },
                |result| Settled::Event(Event::Warm { id: message.id, result }),
            ),
            Task::Holders { id, .. } => settled(
                read(answer, |value| {
                    let names: Vec<String> = list(value, text).ok_or_else(|| strange(value))?;
                    names.iter().map(|name| ledger::decode_holder(name)).collect()
                }),
                ok,
                |result| Settled::Event(Event::Holders { id, result }),
            ),
            Task::Secret { .. } => settled(
                read(answer, |value| text(value).ok_or_else(|| strange(value))),
                ok,
                Settled::Secret,
            ),
            Task::Start { starts, .. } => settled(
                read(answer, |value| match value {
                    Value::Int(0) => Ok(false),
                    Value::Int(1) => Ok(true),
                    _ => Err(strange(value)),
                }),
                |&is_newest| if is_newest { ClusterResult::Ok } else { ClusterResult::Stale },
                |result| Settled::Event(Event::Start { starts, result }),
            ),
            Task::Epoch { biz, .. } => settled(answer, ok, |answer| {
                let found = match answer {
                    Ok((Value::Int(epoch @ 0..=MAX_EPOCH_NUMBER), _)) => {
                        return Settled::Event(Event::Epoch { biz, epoch: *epoch as u64 });
                    }
                    Ok((other, _)) => format!("{other:?}"),
                    Err(Lost::Refused { error, .. }) if is_bad_epoch(&error) => {
                        format!("no number ({error})")
                    }
                    Err(_) => return Settled::Silent,
                };
                Settled::Event(Event::BadEpoch { biz, found })
            }),
            Task::Publish { .. } => settled(answer, ok, |_| Settled::Silent),
            Task::Slots(slots) => settled(answer, ok, |answer| {
                const REDIRECTED: [&str; 3] = ["MOVED ", "ASK ", "TRYAGAIN "];
                let Err(why) = answer else { return Settled::Silent };
                let is_redirected = matches!(&why, Lost::Refused { error, .. }
                    if REDIRECTED.iter().any(|code| error.starts_with(code)));
                Settled::Unmet { slots, is_redirected }
            }),
        }
    }
}

fn ok<T>(_: &T) -> ClusterResult {
    ClusterResult::Ok
}

/// Calls a function of the library.
fn call(function: &str, key: &str, arguments: impl ToRedisArgs) -> Cmd {
    let mut command = cmd("FCALL");
    command.arg(function).arg(1).arg(key).arg(arguments);
    command
}

/// Reads the answer of a node.
fn read<T>(
    answer: Result<(&Value, &ClusterNode), Lost>,
    decode: impl FnOnce(&Value) -> Result<T, BadReply>,
) -> Result<T, Lost> {
    let (value, node) = answer?;
    decode(value).map_err(|bad| Lost::Strange { node: node.to_string(), bad })
}

fn strange(value: &Value) -> BadReply {
    BadReply::Other(format!("{value:?}"))
}

/// The end of a job with this result.
fn settled<T>(
    result: Result<T, Lost>,
    counted_as: impl FnOnce(&T) -> ClusterResult,
    end: impl FnOnce(Result<T, Lost>) -> Settled,
) -> (Settled, ClusterResult) {
    let counted = result.as_ref().map_or_else(result_of, counted_as);
    (end(result), counted)
}

/// Whether the error is about the stored value, not about the state of the node.
fn is_bad_epoch(error: &str) -> bool {
    error.starts_with(ledger::NO_EPOCH) || error.starts_with("WRONGTYPE ")
}

/// The result that a message without an answer is counted as.
fn result_of(why: &Lost) -> ClusterResult {
    match why {
        Lost::Broken { .. } => ClusterResult::Timeout,
        Lost::Down { .. } | Lost::Full(_) => ClusterResult::Unreachable,
        Lost::NotAcknowledged { .. } => ClusterResult::Unconfirmed,
        Lost::Redirected(_) => ClusterResult::Moved,
        Lost::Refused { .. } | Lost::Strange { .. } | Lost::Unfit(_) => ClusterResult::Error,
    }
}

fn warm(message: &WarmMessage, value: &Value) -> Option<WarmAnswer> {
    match (&message.call, value) {
        (WarmCall::Put { .. }, Value::Int(number)) => WarmAnswer::of_put(*number),
        (WarmCall::Drop, Value::Int(_)) => Some(WarmAnswer::Nothing),
        (WarmCall::Fetch, Value::Array(found)) => match found.as_slice() {
            [] => Some(WarmAnswer::Nothing),
            [Value::BulkString(bytes)] => Some(WarmAnswer::Record(bytes.clone())),
            _ => None,
        },
        _ => None,
    }
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Value::Array(items) => items.iter().map(read).collect(),
        _ => None,
    }
}
