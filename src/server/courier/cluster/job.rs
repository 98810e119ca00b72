//! A command on its way to a master, and what becomes of it.
//!
//! Invariant: each job is settled once. One that is dropped, by a thread that ends or panics, is
//! settled as lost.

use redis::{Cmd, Value, cmd};

use super::message::{Event, Id, Lost, Message};
use super::report::{LinkNumber, Report, Reports};
use super::topology::Redirection;
use crate::courier::{ledger, name};

/// What is asked of a master.
#[derive(Debug, Clone)]
pub(super) enum Task {
    Message(Message),
    Publish { ledger: String, channel: String, payload: Vec<u8> },
    Holders { id: Id, ledger: String },
    Epoch { biz: u64, known: u64, key: String },
    Secret { key: String, check: String },
}

/// What became of a job.
#[derive(Debug)]
pub(super) enum Settled {
    /// The owner hears of it.
    Event(Event),
    /// The check of the secret that the cluster knows.
    Secret(Result<String, Lost>),
    /// Another node has to be asked.
    Redirected { task: Task, redirection: Redirection, redirected: u32 },
    /// Nobody waits for it.
    Silent,
}

impl Task {
    /// The slot of its key.
    pub(super) fn slot(&self) -> u16 {
        let key = match self {
            Task::Message(message) => &message.ledger,
            Task::Publish { ledger, .. } | Task::Holders { ledger, .. } => ledger,
            Task::Epoch { key, .. } | Task::Secret { key, .. } => key,
        };
        name::slot(key.as_bytes())
    }

    /// Whether replicas should acknowledge it.
    pub(super) fn writes(&self) -> bool {
        matches!(self, Task::Message(_) | Task::Epoch { .. } | Task::Secret { .. })
    }

    /// The command.
    pub(super) fn command(&self, learn_ms: u64) -> Result<Cmd, ledger::BadSettings> {
        let function = |name: &str, key: &str| {
            let mut command = cmd("FCALL");
            command.arg(name).arg(1).arg(key);
            command
        };
        let mut command = match self {
            Task::Message(message) => {
                let Message { ledger, settings, take, .. } = message;
                let mut command = function(ledger::function(&settings.kind), ledger);
                command.arg(ledger::arguments(settings, take, learn_ms)?);
                command
            }
            Task::Publish { .. } => cmd("PUBLISH"),
            Task::Holders { ledger, .. } => function(ledger::HOLDERS, ledger),
            Task::Epoch { key, .. } => function(ledger::EPOCH, key),
            Task::Secret { key, .. } => function(ledger::SECRET, key),
        };
        match self {
            Task::Publish { channel, payload, .. } => command.arg(channel).arg(&payload[..]),
            Task::Epoch { known, .. } => command.arg(known),
            Task::Secret { check, .. } => command.arg(check),
            Task::Message(_) | Task::Holders { .. } => &mut command,
        };
        Ok(command)
    }

    /// What its loss means.
    pub(super) fn lost(self, why: Lost) -> Settled {
        match self {
            Task::Message(Message { id, .. }) => {
                Settled::Event(Event::Answered { id, result: Err(why) })
            }
            Task::Holders { id, .. } => Settled::Event(Event::Holders { id, result: Err(why) }),
            Task::Secret { .. } => Settled::Secret(Err(why)),
            Task::Publish { .. } | Task::Epoch { .. } => Settled::Silent,
        }
    }

    /// What an answer means.
    pub(super) fn answered(self, value: &Value, node: &str) -> Settled {
        let found = || ledger::BadReply::Other(format!("{value:?}"));
        let strange = |bad| Lost::Strange { node: node.to_owned(), bad };
        match self {
            Task::Message(Message { id, settings, .. }) => {
                let numbers: Option<Vec<i64>> = list(value, |item| match item {
                    Value::Int(number) => Some(*number),
                    _ => None,
                });
                let reply = numbers.ok_or_else(found);
                let reply = reply.and_then(|numbers| ledger::decode(&settings, &numbers));
                Settled::Event(Event::Answered { id, result: reply.map_err(strange) })
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
                Value::Int(epoch) if epoch >= 0 => {
                    Settled::Event(Event::Epoch { biz, epoch: epoch as u64 })
                }
                _ => Settled::Silent,
            },
            Task::Secret { .. } => Settled::Secret(text(value).ok_or_else(|| strange(found()))),
            Task::Publish { .. } => Settled::Silent,
        }
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

/// A task in the hands of a link.
pub(super) struct Job {
    task: Option<Task>,
    /// After ASK: the node serves a slot that is on its way there.
    pub(super) asking: bool,
    /// So many nodes have sent it elsewhere.
    pub(super) redirected: u32,
    /// So many times the library was loaded for it.
    pub(super) loaded: u32,
    link: LinkNumber,
    reports: Reports,
}

impl Job {
    pub(super) fn new(task: Task, link: LinkNumber, reports: Reports) -> Job {
        Job { task: Some(task), asking: false, redirected: 0, loaded: 0, link, reports }
    }

    pub(super) fn task(&self) -> &Task {
        self.task.as_ref().expect("a job has its task until it is settled")
    }

    pub(super) fn lose(mut self, why: Lost) {
        self.settle(|task| task.lost(why));
    }

    pub(super) fn answer(mut self, value: &Value, node: &str) {
        self.settle(|task| task.answered(value, node));
    }

    pub(super) fn redirect(mut self, redirection: Redirection) {
        let redirected = self.redirected + 1;
        self.settle(|task| Settled::Redirected { task, redirection, redirected });
    }

    fn settle(&mut self, how: impl FnOnce(Task) -> Settled) {
        if let Some(task) = self.task.take() {
            let settled = how(task);
            self.reports.tell(Report::Settled { link: self.link, settled });
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let why = || Lost::Broken { node: "a master".to_owned(), why: "the link ended".to_owned() };
        self.settle(|task| task.lost(why()));
    }
}
