//! A question to a master: its command, and the meaning of an answer or of a loss.
//!
//! Invariant: the meaning of an answer follows from the task alone, whichever node has answered.

use frs_conf::{ClusterNode, MAX_EPOCH};
use redis::{Cmd, Value, cmd};

use super::message::{Event, Id, Lost, Message};
use super::message_counts;
use super::topology::Redirection;
use crate::figures::{ClusterFunction, ClusterResult};
use crate::lease::Taken;
use crate::ledger::Answer;
use crate::name::SlotKeys;
use crate::newest_copy::Starts;
use crate::warm::{WarmAnswer, WarmCall, WarmMessage};
use crate::{ledger, name};

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
        let function = |name: &str, key: &str| {
            let mut command = cmd("FCALL");
            command.arg(name).arg(1).arg(key);
            command
        };
        let mut command = match self {
            Task::Message(message) => {
                let Message { ledger, settings, take, .. } = message;
                let mut command = function(ledger::function(&settings.kind), ledger);
                let slot = if asking { String::new() } else { slots.of(self.slot()) };
                command.arg(ledger::arguments(settings, take, learn_ms, &slot)?);
                command
            }
            Task::Warm(message) => {
                let mut command = function(message.function(), &message.key);
                command.arg(message.arguments());
                command
            }
            Task::Publish { .. } => cmd("PUBLISH"),
            Task::Holders { ledger, .. } => function(ledger::HOLDERS, ledger),
            Task::Epoch { key, .. } => function(ledger::EPOCH, key),
            Task::Secret { key, .. } => function(ledger::SECRET, key),
            Task::Start { key, .. } => function(ledger::START, key),
            Task::Slots(numbers) => function(ledger::SLOTS, &slots.of(numbers[0])),
        };
        match self {
            Task::Publish { channel, payload, .. } => command.arg(channel).arg(&payload[..]),
            Task::Epoch { known, .. } => command.arg(known),
            Task::Secret { check, .. } => command.arg(check),
            Task::Start { starts, .. } => command.arg(&ledger::start_arguments(starts)[..]),
            Task::Slots(numbers) => {
                numbers[1..].iter().fold(&mut command, |command, slot| command.arg(slots.of(*slot)))
            }
            Task::Message(_) | Task::Warm(_) | Task::Holders { .. } => &mut command,
        };
        Ok(command)
    }

    /// The end of the job if its answer is lost.
    pub(super) fn lost(self, why: Lost) -> Settled {
        match self {
            Task::Message(Message { id, settings, .. }) => {
                let function = message_counts::function_of_kind(&settings.kind);
                Settled::Event(Event::Answered { id, function, result: Err(why) })
            }
            Task::Warm(WarmMessage { id, .. }) => {
                Settled::Event(Event::Warm { id, result: Err(why) })
            }
            Task::Holders { id, .. } => Settled::Event(Event::Holders { id, result: Err(why) }),
            Task::Secret { .. } => Settled::Secret(Err(why)),
            Task::Start { starts, .. } => Settled::Event(Event::Start { starts, result: Err(why) }),
            Task::Epoch { biz, .. } => match why {
                Lost::Refused { error, .. } if is_bad_epoch(&error) => {
                    let found = format!("no number ({error})");
                    Settled::Event(Event::BadEpoch { biz, found })
                }
                _ => Settled::Silent,
            },
            Task::Publish { .. } => Settled::Silent,
            Task::Slots(slots) => {
                const REDIRECTED: [&str; 3] = ["MOVED ", "ASK ", "TRYAGAIN "];
                let is_redirected = matches!(&why, Lost::Refused { error, .. }
                    if REDIRECTED.iter().any(|code| error.starts_with(code)));
                Settled::Unmet { slots, is_redirected }
            }
        }
    }

    /// The meaning of an answer, and the result that it is counted as.
    pub(super) fn answered(self, value: &Value, node: &ClusterNode) -> (Settled, ClusterResult) {
        let settled = self.read(value, node);
        let result = match &settled {
            Settled::Event(
                Event::Answered { result: Err(why), .. }
                | Event::Warm { result: Err(why), .. }
                | Event::Holders { result: Err(why), .. }
                | Event::Start { result: Err(why), .. },
            )
            | Settled::Secret(Err(why)) => result_of(why),
            Settled::Event(Event::Answered { result: Ok(reply), .. }) => match reply.answer {
                Answer::Taken(Taken::Stale) => ClusterResult::Stale,
                _ if reply.learning_ms > 0 => ClusterResult::Learning,
                _ => ClusterResult::Ok,
            },
            Settled::Event(
                Event::Warm { result: Ok(WarmAnswer::Old), .. }
                | Event::Start { result: Ok(false), .. },
            ) => ClusterResult::Stale,
            _ => ClusterResult::Ok,
        };
        (settled, result)
    }

    fn read(self, value: &Value, node: &ClusterNode) -> Settled {
        let found = || ledger::BadReply::Other(format!("{value:?}"));
        let strange = |bad| Lost::Strange { node: node.to_string(), bad };
        match self {
            Task::Message(Message { id, settings, .. }) => {
                let numbers: Option<Vec<i64>> = list(value, |item| match item {
                    Value::Int(number) => Some(*number),
                    _ => None,
                });
                let reply = numbers.ok_or_else(found);
                let reply = reply.and_then(|numbers| ledger::decode(&settings, &numbers));
                let function = message_counts::function_of_kind(&settings.kind);
                let result = reply.map_err(strange);
                Settled::Event(Event::Answered { id, function, result })
            }
            Task::Warm(message) => {
                let answer = warm(&message, value).ok_or_else(|| strange(found()));
                Settled::Event(Event::Warm { id: message.id, result: answer })
            }
            Task::Holders { id, .. } => {
                let names: Option<Vec<String>> = list(value, text);
                let decode = |names: Vec<String>| {
                    names.iter().map(|name| ledger::decode_holder(name)).collect()
                };
                let result = names.ok_or_else(found).and_then(decode).map_err(strange);
                Settled::Event(Event::Holders { id, result })
            }
            Task::Epoch { biz, .. } => match *value {
                Value::Int(epoch) if (0..=MAX_EPOCH as i64).contains(&epoch) => {
                    Settled::Event(Event::Epoch { biz, epoch: epoch as u64 })
                }
                ref other => Settled::Event(Event::BadEpoch { biz, found: format!("{other:?}") }),
            },
            Task::Secret { .. } => Settled::Secret(text(value).ok_or_else(|| strange(found()))),
            Task::Start { starts, .. } => {
                let result = match value {
                    Value::Int(is_newest @ (0 | 1)) => Ok(*is_newest == 1),
                    _ => Err(strange(found())),
                };
                Settled::Event(Event::Start { starts, result })
            }
            Task::Publish { .. } | Task::Slots(_) => Settled::Silent,
        }
    }
}

/// Whether the error is about the stored value, not about the state of the node.
fn is_bad_epoch(error: &str) -> bool {
    error.starts_with(ledger::NO_EPOCH) || error.starts_with("WRONGTYPE ")
}

/// The result that a message without an answer is counted as.
pub(super) fn result_of(why: &Lost) -> ClusterResult {
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
        (WarmCall::Put { .. }, Value::Int(number)) => WarmMessage::kept(*number),
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

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}
