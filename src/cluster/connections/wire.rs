//! One connection to one node.
//!
//! Invariant: no call waits longer than its argument allows. A connection is not used again after
//! an error: its owner drops it.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::sync::Arc;
use std::time::Duration;

use frs_base::clock;
use frs_conf::{Cluster, ClusterNode, Password};
use redis::{Cmd, Value, cmd};

use super::fault::ClusterFault;
use super::message_counts::MessageCounts;
use super::reply;
use super::stream::Stream;
use crate::figures::{ClusterFunction, ClusterResult};

/// Timeouts allowed for a handshake and a password.
const LOGIN_TIMEOUTS: u32 = 4;

/// The settings for connections to all nodes.
#[derive(Clone)]
pub(super) struct Access {
    /// The longest wait for a connection, and for an answer that is not late.
    pub(super) timeout: Duration,
    pub(super) tls: bool,
    user: Option<String>,
    password: Option<String>,
    /// Counts messages, also those that are not jobs of a link.
    pub(super) counts: Arc<MessageCounts>,
}

/// Why a connection cannot be used, or can no longer be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    /// It may work again later.
    Lost(String),
    /// It does not work until somebody repairs the cause.
    Unfit(ClusterFault),
}

impl Broken {
    pub(super) fn why(&self) -> String {
        match self {
            Broken::Lost(why) => why.clone(),
            Broken::Unfit(fault) => fault.to_string(),
        }
    }
}

impl Access {
    pub(super) fn new(
        conf: &Cluster,
        password: Option<&Password>,
        counts: Arc<MessageCounts>,
    ) -> Result<Access, ClusterFault> {
        let password = password.map(|password| {
            String::from_utf8(password.bytes().to_vec())
                .map_err(|_| ClusterFault::File("expected a password of UTF-8".to_owned()))
        });
        Ok(Access {
            timeout: Duration::from_millis(conf.timeout_ms),
            tls: conf.tls,
            user: conf.login.as_ref().and_then(|login| login.user.clone()),
            password: password.transpose()?,
            counts,
        })
    }

    /// Connects and logs in.
    pub(super) fn open(&self, node: &ClusterNode) -> Result<Wire, Broken> {
        let until = clock::instant() + self.timeout;
        let stream = Stream::connect(node, self.tls, until);
        let stream = stream.map_err(|error| Broken::Lost(why(&error, self.timeout)))?;
        let (node, counts) = (node.clone(), Arc::clone(&self.counts));
        let mut wire = Wire { stream: BufReader::new(stream), node, counts };
        self.log_in(&mut wire)?;
        Ok(wire)
    }

    fn log_in(&self, wire: &mut Wire) -> Result<(), Broken> {
        let Some(password) = &self.password else { return Ok(()) };
        let mut command = cmd("AUTH");
        if let Some(user) = &self.user {
            command.arg(user);
        }
        command.arg(password);
        match wire.one(command, LOGIN_TIMEOUTS * self.timeout)? {
            Value::ServerError(_) => {
                Err(not_allowed(&wire.node, "the user or its password is not known there"))
            }
            _ => Ok(()),
        }
    }
}

/// The fault that the node does not permit something to the courier.
pub(super) fn not_allowed(node: &ClusterNode, error: &str) -> Broken {
    let (node, error) = (node.to_string(), error.to_owned());
    Broken::Unfit(ClusterFault::NotAllowed { node, error })
}

fn why(error: &io::Error, longest: Duration) -> String {
    match error.kind() {
        ErrorKind::TimedOut => format!("no answer within {} ms", longest.as_millis()),
        _ => error.to_string(),
    }
}

fn not_whole(longest: Duration) -> String {
    format!("no whole answer within {} ms", longest.as_millis())
}

/// The text of an error that a node has answered.
pub(super) fn words(error: &redis::ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// A connection.
pub(super) struct Wire {
    stream: BufReader<Stream>,
    pub(super) node: ClusterNode,
    pub(super) counts: Arc<MessageCounts>,
}

impl Wire {
    /// Sends all commands at once, and reads an answer to each. Both together take no longer than
    /// `longest`.
    pub(super) fn exchange(
        &mut self,
        commands: &[Cmd],
        longest: Duration,
    ) -> Result<Vec<Value>, Broken> {
        self.exchange_or_late(commands, [longest; 2], || {})
    }

    /// Like `exchange`, for one command.
    pub(super) fn one(&mut self, command: Cmd, longest: Duration) -> Result<Value, Broken> {
        Ok(self.exchange(&[command], longest)?.swap_remove(0))
    }

    /// Like `exchange`. Calls `late` if the next answer has not begun to arrive by
    /// `timeout`. All answers are still awaited until `longest`, so that the connection can be used
    /// again.
    pub(super) fn exchange_or_late(
        &mut self,
        commands: &[Cmd],
        [timeout, longest]: [Duration; 2],
        late: impl FnOnce(),
    ) -> Result<Vec<Value>, Broken> {
        let begun = clock::instant();
        let mut late = Some(late);
        self.bound(longest, commands.len());
        self.write(commands).map_err(|error| self.broken(&error, longest))?;
        let mut reader = reply::Answers::new(commands.len());
        let mut answers = Vec::with_capacity(commands.len());
        while answers.len() < commands.len() {
            if late.is_some() {
                self.stream.get_mut().socket().until = begun + timeout;
                let begins = self.stream.fill_buf().map(|_| ());
                self.stream.get_mut().socket().until = begun + longest;
                match begins {
                    Err(error) if error.kind() == ErrorKind::TimedOut => {
                        late.take().into_iter().for_each(|late| late());
                        continue;
                    }
                    begins => begins.map_err(|error| self.broken(&error, longest))?,
                }
            }
            let received = reader.read(&mut self.stream);
            answers.push(received.map_err(|error| self.broken(&error, longest))?);
        }
        Ok(answers)
    }

    /// Subscribes to channels. Returns the error of a node that refuses, which it sends once for
    /// all of them.
    pub(super) fn subscribe(
        &mut self,
        names: &[String],
        longest: Duration,
    ) -> Result<Option<String>, Broken> {
        let mut command = cmd("SUBSCRIBE");
        command.arg(names);
        self.send(command, longest, names.len())?;
        for _ in names {
            let received = reply::Answers::new(1).read(&mut self.stream);
            let received = received.map_err(|error| self.broken(&error, longest))?;
            if let Value::ServerError(error) = &received {
                return Ok(Some(words(error)));
            }
        }
        Ok(None)
    }

    /// Asks whether the node is there. The answer arrives among the published messages.
    pub(super) fn ping(&mut self, longest: Duration) -> Result<(), Broken> {
        self.send(cmd("PING"), longest, 1)
    }

    fn send(&mut self, command: Cmd, longest: Duration, answers: usize) -> Result<(), Broken> {
        self.bound(longest, answers);
        self.write(&[command]).map_err(|error| self.broken(&error, longest))
    }

    /// Reads the next message that the node sends by itself. `None` if no byte arrives within
    /// `silence`. A message that has begun must arrive whole within `longest`.
    pub(super) fn receive(
        &mut self,
        silence: Duration,
        longest: Duration,
    ) -> Result<Option<Value>, Broken> {
        self.bound(silence, 1);
        match self.stream.fill_buf() {
            Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(None),
            Err(error) => return Err(self.broken(&error, silence)),
            Ok(_) => {}
        }
        self.bound(longest, 1);
        let received = reply::Answers::new(1).read(&mut self.stream);
        received.map(Some).map_err(|error| match error.kind() {
            // The message has already begun.
            ErrorKind::TimedOut => Broken::Lost(not_whole(longest)),
            _ => self.broken(&error, longest),
        })
    }

    fn bound(&mut self, longest: Duration, answers: usize) {
        let socket = self.stream.get_mut().socket();
        socket.until = clock::instant() + longest;
        (socket.allowed, socket.read) = (reply::bytes_for(answers), 0);
    }

    fn write(&mut self, commands: &[Cmd]) -> io::Result<()> {
        let mut packed = Vec::new();
        commands.iter().for_each(|command| command.write_packed_command(&mut packed));
        self.stream.get_mut().write_all(&packed)?;
        self.stream.get_mut().flush()
    }

    fn broken(&mut self, error: &io::Error, longest: Duration) -> Broken {
        let why = match error.kind() {
            ErrorKind::TimedOut if self.stream.get_mut().socket().read > 0 => not_whole(longest),
            _ => why(error, longest),
        };
        Broken::Lost(why)
    }

    /// Like `exchange`, for commands that are not a job of a link. They are counted as one
    /// message.
    pub(super) fn exchange_counted(
        &mut self,
        function: ClusterFunction,
        commands: &[Cmd],
        longest: Duration,
    ) -> Result<Vec<Value>, Broken> {
        let answers = self.exchange(commands, longest);
        let is_error = |value: &Value| matches!(value, Value::ServerError(_));
        self.counts.count(
            function,
            match &answers {
                Ok(answers) if answers.iter().any(is_error) => ClusterResult::Error,
                Ok(_) => ClusterResult::Ok,
                Err(_) => ClusterResult::Timeout,
            },
        );
        answers
    }

    /// The meaning of an error of the node for the connection.
    pub(super) fn refusal(&self, error: &str) -> Broken {
        match is_not_allowed(error) {
            true => not_allowed(&self.node, error),
            false => Broken::Lost(format!("it answers: {error}")),
        }
    }
}

/// Whether an error says that the user may not do this.
pub(super) fn is_not_allowed(error: &str) -> bool {
    let code = error.split(' ').next().unwrap_or_default();
    // A function stops at the first command that its caller may not use, with the error text of 7.2
    // or of 7.0.
    matches!(code, "NOPERM" | "NOAUTH" | "WRONGPASS")
        || error.contains("ACL failure in script")
        || error.contains("The user executing the script can't run this command")
}

#[cfg(test)]
mod tests;
