//! One connection of the data plane that speaks RESP: bytes in, bytes out, no socket.
//!
//! Invariant: commands are answered in the order they arrive, and those of a transaction when it is
//! executed. The answers do not depend on how the input is cut into pieces, except for the end of
//! the connection while draining. No answer follows an answer that closes the connection.
//!
//! A command that arrives whole is read in place. Its items go through the queue that all
//! connections of the worker share.

mod registers;
mod session;
mod transaction;

use std::net::IpAddr;

use super::buffer_pool::BufferPool;
use super::connection::{
    ConnectionBuffers, InputProgress, InputStep, ParkedItem, ReplyForm, RequestContext, RespRules,
    Serve,
};
use crate::protocol::call::Call;
use crate::protocol::resp::{
    AnswerForm, Args, CommandBounds, CommandError, Fault, Name, Scan, Scanned, Shape, Version,
    Writer, read_line, read_many, read_one, read_throttle, write_fault,
};
use crate::protocol::response_head::ResponseOptions;
use crate::protocol::{Bounds, Error};
use frs_engine::Command;
use frs_engine::access::Caller;
use session::Session;
use transaction::Transaction;

pub(crate) use registers::SCANNED_KEYS;

/// The number of wrong tokens in a row that closes the connection. The client has to connect again,
/// which max-connections and the time to connect bound.
const MAX_WRONG_TOKENS: u8 = 3;

/// A connection that speaks RESP.
#[derive(Debug, Default)]
pub struct RespConnection {
    /// The address of the client. `None` on a unix socket.
    peer: Option<IpAddr>,
    /// The scan of the incomplete command.
    scan: Scan,
    session: Session,
    /// Commands between MULTI and the end of EXEC.
    transaction: Option<Transaction>,
    /// Requests that wait for a reply, and requests and answers behind them.
    pub(super) parked: Vec<ParkedItem>,
    closed: bool,
}

/// Input that has arrived from a client and is not consumed.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The socket may have more unread input. A draining worker does not close the connection
    /// before it has read that input.
    pub has_more: bool,
}

/// The source of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandOrigin {
    Input,
    Transaction,
}

/// The context of a command.
struct Serving<'a, S> {
    context: RequestContext<'a, S>,
    own: RespRules<'a>,
    /// The input behind the command.
    behind: &'a [u8],
    /// How many commands behind it are expected: the memory of their registers is fetched.
    expected: usize,
    /// The connection has used its share of the tick: other clients are served before more of its
    /// commands.
    is_over: bool,
}

impl RespConnection {
    /// A new connection. `peer` is `None` on a unix socket.
    pub fn new(peer: Option<IpAddr>) -> RespConnection {
        let session = Session::new(peer.is_none());
        RespConnection { peer, session, ..RespConnection::default() }
    }

    /// Notes the names of the certificate that the peer has shown, such as `CN=billing`.
    pub fn show_cert(&mut self, names: Vec<String>) {
        self.session.show_cert(names);
    }

    /// Whether the wait of an address does not hold up this connection.
    pub(super) fn is_exempt(&self) -> bool {
        self.session.is_exempt()
    }

    /// Whether the last token of the connection was wrong.
    pub(super) fn is_wrong(&self) -> bool {
        self.session.wrong_tokens > 0
    }

    /// Answers the commands that `input` completes, appending to `out`, for one connection of a
    /// batch. The batch's [`ConnectionBuffers::flush`] appends the last answers.
    ///
    /// `input` starts where the last call stopped consuming.
    pub fn take<'a, S: Serve>(
        &mut self,
        Input { bytes: input, has_more }: Input<'a>,
        own: RespRules<'a>,
        serve: &'a mut S,
        scratch: &'a mut ConnectionBuffers,
        out: &'a mut Vec<u8>,
    ) -> InputProgress {
        scratch.follow(&own.rules);
        let context = RequestContext { rules: own.rules, serve, scratch, out };
        let mut serving = Serving { context, own, behind: &[], expected: 0, is_over: false };
        let bounds = CommandBounds::from(own.rules.http);
        let (mut consumed, mut answered, mut starved, mut need) = (0, 0, false, 1);
        let from = serving.context.out.len();
        let has_waited = !self.parked.is_empty();
        if has_waited {
            serving.context.resume(&mut self.parked);
        }
        while !self.closed
            && !serving.context.is_full(answered, from)
            && !serving.context.is_parked()
            && !serving.is_over
        {
            match self.step(&input[consumed..], bounds, &mut serving) {
                InputStep::Took(bytes) => consumed += bytes,
                InputStep::Answered(bytes) => {
                    consumed += bytes;
                    answered += 1;
                    serving.context.weigh(bytes);
                }
                InputStep::Starved(_, more) => {
                    (starved, need) = (true, more);
                    break;
                }
            }
        }
        if self.session.wrong_tokens >= MAX_WRONG_TOKENS {
            self.closed = true;
        }
        let rest = &input[consumed..];
        let has_stopped = serving.is_over || serving.context.is_full(answered, from);
        let is_between = (starved || has_stopped) && rest.is_empty() && self.transaction.is_none();
        let is_last = is_between && (answered > 0 || has_waited) && !has_more;
        if is_last && serving.context.serve.draining() {
            self.closed = true;
        }
        if self.closed {
            let (need, more, begun) = (1, false, false);
            return InputProgress { consumed: input.len(), need, more, begun, close: true };
        }
        InputProgress {
            consumed,
            // The buffer gets room for the longest command, whatever the length of this one.
            need: if rest.is_empty() { 1 } else { need },
            more: has_stopped && (!rest.is_empty() || self.is_running()),
            begun: !matches!(rest, [] | [b'\r']),
            close: false,
        }
    }

    /// Appends the error of an expired request-timeout. The caller closes the connection.
    pub fn time_out<S: Serve>(&mut self, serve: &mut S, out: &mut Vec<u8>) {
        if !self.closed {
            write_fault(out, Fault::Timeout);
            serve.answered(Call::Other, Fault::Timeout.status());
        }
        self.closed = true;
    }

    /// Returns the buffers of a connection that reads no more.
    pub fn release(&mut self, pool: &mut BufferPool) {
        if let Some(mut transaction) = self.transaction.take() {
            transaction.give_back(pool);
        }
    }

    /// The bytes kept for the client.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, Transaction::held_bytes)
    }

    fn step<'a, S: Serve>(
        &mut self,
        input: &'a [u8],
        bounds: CommandBounds,
        serving: &mut Serving<'a, S>,
    ) -> InputStep {
        if self.is_running() {
            return self.step_transaction(serving);
        }
        match self.scan.scan(input, bounds) {
            Ok(Scanned::Array(end)) => {
                let (command, behind) = input.split_at(end);
                serving.behind = behind;
                self.command(Args::of_array(command), CommandOrigin::Input, serving);
                InputStep::Answered(end)
            }
            Ok(Scanned::Line { text, end }) => {
                self.line(&input[..text], bounds, serving);
                InputStep::Answered(end)
            }
            Ok(Scanned::Empty(end)) => InputStep::Took(end),
            Ok(Scanned::Http) => {
                self.closed = true;
                // The client speaks HTTP, so the error is written in HTTP.
                let options = ResponseOptions::CLOSE;
                serving.context.write_error(Call::Other, options, &Error::OnResp);
                InputStep::Answered(0)
            }
            Ok(Scanned::Partial) => InputStep::Starved(0, bounds.bytes),
            Err(fault) => {
                self.fail(fault, serving);
                InputStep::Answered(0)
            }
        }
    }

    /// Answers an inline command.
    fn line<S: Serve>(&mut self, line: &[u8], bounds: CommandBounds, serving: &mut Serving<'_, S>) {
        let mut words = std::mem::take(&mut serving.context.scratch.resp.words);
        match read_line(line, bounds, &mut words) {
            Ok(args) => self.command(args, CommandOrigin::Input, serving),
            Err(fault) => self.fail(fault, serving),
        }
        serving.context.scratch.resp.words = words;
    }

    /// Answers a fault that ends the connection.
    #[cold]
    fn fail<S: Serve>(&mut self, fault: Fault, serving: &mut Serving<'_, S>) {
        self.closed = true;
        serving.drop_transaction(&mut self.transaction);
        serving.context.write_with(Call::Other, fault.status(), |out| write_fault(out, fault));
    }

    /// Answers a command, keeps it for EXEC, or puts its items into the queue.
    #[inline]
    fn command<S: Serve>(
        &mut self,
        mut args: Args<'_>,
        origin: CommandOrigin,
        serving: &mut Serving<'_, S>,
    ) {
        let whole = args;
        // A command has at least its name.
        let word = args.next().unwrap_or_default();
        let command = serving.own.commands().find(word);
        let is_known = self.session.is_known(serving.own);
        if !is_known && command.is_none_or(|it| !it.needs_no_auth()) {
            return self.refuse(CommandError::NoAuth, serving);
        }
        let Some(command) = command else {
            serving.context.serve.unknown_command(word);
            return self.refuse(CommandError::Unknown(word), serving);
        };
        if !command.takes(whole.len()) {
            let error = match command.name {
                Name::Exec => {
                    serving.drop_transaction(&mut self.transaction);
                    CommandError::ExecArguments
                }
                _ => CommandError::Arguments(command.word),
            };
            return self.refuse(error, serving);
        }
        if matches!(command.name, Name::Register(_) | Name::Scan | Name::DbSize)
            && let Some(error) = self.session.lacks_registers(serving.own)
        {
            return self.refuse(error, serving);
        }
        // A reload may require a token since MULTI, so the client may be unknown here.
        let may_queue = is_known && origin == CommandOrigin::Input && !command.is_never_queued();
        if self.transaction.is_some() && may_queue {
            return self.queue(whole, serving);
        }
        let version = self.session.version;
        let form = |command, shape| AnswerForm { call: Call::from(command), version, shape };
        let http = serving.own.rules.http;
        let request = serving.context.scratch.queue.request();
        let read =
            match command.name {
                Name::Update => read_one(Command::Update, args, request)
                    .map(|()| form(Command::Update, Shape::One)),
                Name::Query => read_one(Command::Query, args, request)
                    .map(|()| form(Command::Query, Shape::One)),
                Name::Throttle => read_throttle(args, serving.own.throttle, request)
                    .map(|()| form(Command::Update, Shape::Throttle)),
                Name::ManyUpdate => read_many(Command::Update, args, Bounds::from(http), request)
                    .map(|()| form(Command::Update, Shape::Many)),
                Name::ManyQuery => read_many(Command::Query, args, Bounds::from(http), request)
                    .map(|()| form(Command::Query, Shape::Many)),
                Name::Register(verb) => return self.run_verb(verb, command, whole, serving),
                name => return self.answer(name, args, serving),
            };
        match read {
            Ok(form) => {
                let caller = self.session.caller(serving.own).unwrap_or(Caller::NOBODY);
                serving.context.mark(caller);
                serving.context.enqueue(ReplyForm::Resp(form));
            }
            Err(error) => serving.error(version, error),
        }
    }

    /// Answers the error of a command that is not run. The error spoils an open transaction.
    #[cold]
    fn refuse<S: Serve>(&mut self, error: CommandError<'_>, serving: &mut Serving<'_, S>) {
        if let Some(transaction) = &mut self.transaction {
            transaction.spoil();
        }
        serving.error(self.session.version, error);
    }
}

impl<S: Serve> Serving<'_, S> {
    /// Answers the error of a command.
    #[cold]
    fn error(&mut self, version: Version, error: CommandError<'_>) {
        let status = error.status();
        self.context.write_short(Call::Other, status, |out| Writer::new(out, version).error(error));
    }
}

#[cfg(test)]
mod tests;
