//! MULTI, EXEC and DISCARD: commands that are kept as text and run in order.
//!
//! Invariant: the kept text is within max-body. Commands over few registers run in one transaction
//! of the store. All others run as if they arrived from the client one after another: nothing is
//! rolled back, and other clients are served in between.

use super::registers::Together;
use super::{CommandOrigin, RespConnection, Serving};
use crate::protocol::call::Call;
use crate::protocol::resp::{
    Args, Command, CommandBounds, CommandError, CommandSet, Fault, Scan, Scanned, Writer,
    command_bytes, push_command,
};
use crate::worker::buffer_pool::{BufferPool, make_room};
use crate::worker::connection::{InputStep, Serve};

/// Bounds for commands that were within the bounds when they were queued.
const ANY: CommandBounds = CommandBounds { arguments: u32::MAX, bytes: usize::MAX / 2 };

/// Commands between MULTI and the end of EXEC.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The queued commands as RESP arrays.
    text: Vec<u8>,
    commands: usize,
    phase: Phase,
}

/// The state of a transaction. What waits does so because a request before it is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    /// Commands are queued.
    #[default]
    Open,
    /// A command could not be queued: EXEC will fail.
    Spoiled,
    /// EXEC waits.
    ExecWaits,
    /// The command at this offset in the text is the next one.
    Runs(usize),
    /// It waits.
    Waits(usize),
}

/// Whether the commands of a MULTI run in one transaction of the store.
enum Execution {
    /// They have run.
    Done,
    /// They will, when their turn has come.
    Held,
    /// They run one after another.
    Apart,
}

impl Transaction {
    /// Notes that a command could not be queued.
    pub fn spoil(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Spoiled;
        }
    }

    /// Returns the buffer of an ended transaction to the pool.
    pub fn give_back(&mut self, pool: &mut BufferPool) {
        pool.give(&mut self.text);
    }

    /// The size of the buffer.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        self.text.capacity()
    }
}

impl RespConnection {
    /// Whether a transaction is being executed.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        let transaction = self.transaction.as_ref();
        transaction.is_some_and(|it| !matches!(it.phase, Phase::Open | Phase::Spoiled))
    }

    /// MULTI.
    pub(super) fn begin<S: Serve>(&mut self, serving: &mut Serving<'_, S>) {
        if self.transaction.is_some() {
            return serving.error(self.session.version, CommandError::NestedMulti);
        }
        let text = serving.context.scratch.pool.take(&[]);
        self.transaction = Some(Transaction { text, ..Transaction::default() });
        serving.simple(self.session.version, "OK");
    }

    /// Keeps a command whose turn comes when the parked request before it is answered. Then it runs
    /// as the next one of a transaction, even if it is not in one.
    #[cold]
    pub(super) fn hold<S: Serve>(&mut self, command: Args<'_>, serving: &mut Serving<'_, S>) {
        if let Some(transaction) = &mut self.transaction {
            if let Phase::Runs(at) = transaction.phase {
                transaction.phase = Phase::Waits(at);
            }
            return;
        }
        let mut text = serving.context.scratch.pool.take(&[]);
        push_command(&mut text, command);
        self.transaction = Some(Transaction { text, commands: 1, phase: Phase::Waits(0) });
    }

    /// Keeps a command for EXEC.
    pub(super) fn queue<S: Serve>(&mut self, args: Args<'_>, serving: &mut Serving<'_, S>) {
        let Some(transaction) = &mut self.transaction else { return };
        let most = serving.context.rules.http.max_body_bytes as usize;
        let bytes = command_bytes(args);
        if transaction.text.len() + bytes > most {
            return self.fail(Fault::TransactionTooLong { most }, serving);
        }
        make_room(&mut transaction.text, bytes, most);
        push_command(&mut transaction.text, args);
        transaction.commands += 1;
        serving.simple(self.session.version, "QUEUED");
    }

    /// DISCARD.
    pub(super) fn discard<S: Serve>(&mut self, serving: &mut Serving<'_, S>) {
        if self.transaction.is_none() {
            let error = CommandError::WithoutMulti("DISCARD");
            return serving.error(self.session.version, error);
        }
        serving.drop_transaction(&mut self.transaction);
        serving.simple(self.session.version, "OK");
    }

    /// EXEC. The next steps answer the commands.
    pub(super) fn execute<S: Serve>(&mut self, serving: &mut Serving<'_, S>) {
        let version = self.session.version;
        let Some(transaction) = &mut self.transaction else {
            return serving.error(version, CommandError::WithoutMulti("EXEC"));
        };
        if transaction.phase == Phase::Spoiled {
            serving.drop_transaction(&mut self.transaction);
            return serving.error(version, CommandError::ExecAbort);
        }
        let commands = transaction.commands;
        let together = match serving.own.registers {
            Some(_) => self.execute_together(serving),
            None => Execution::Apart,
        };
        let Some(transaction) = &mut self.transaction else { return };
        match together {
            Execution::Done => return serving.drop_transaction(&mut self.transaction),
            Execution::Held => return transaction.phase = Phase::ExecWaits,
            Execution::Apart => {}
        }
        transaction.phase = Phase::Runs(0);
        serving.short(version, |writer| writer.array(commands));
        if commands == 0 {
            serving.drop_transaction(&mut self.transaction);
        }
    }

    /// Runs the queued commands in one transaction and answers them, if they are over registers and
    /// there is room for them.
    fn execute_together<S: Serve>(&mut self, serving: &mut Serving<'_, S>) -> Execution {
        if self.session.lacks_registers(serving.own).is_some() {
            return Execution::Apart;
        }
        let Some(transaction) = &self.transaction else { return Execution::Apart };
        let version = self.session.version;
        let commands = queued(&transaction.text, serving.own.commands());
        let Some(at) = self.session.registers_at(serving.own) else { return Execution::Apart };
        let together = Together::of(serving.context.serve, at, commands.clone());
        let Some(together) = together else { return Execution::Apart };
        // What came before it runs before it.
        serving.context.flush();
        if serving.context.is_parked() {
            return Execution::Held;
        }
        let mut reply = std::mem::take(&mut serving.context.scratch.resp.reply);
        match together.run(serving.context.serve, at, commands, version, &mut reply) {
            Ok(()) => {
                serving.context.write_with(Call::Update, 200, |out| {
                    Writer::new(out, version).array(transaction.commands);
                    out.extend_from_slice(&reply);
                });
            }
            Err(error) => serving.failed(Call::Update, version, CommandError::Item(error)),
        }
        serving.context.scratch.resp.reply = reply;
        Execution::Done
    }

    /// Answers the next command of the running transaction.
    pub(super) fn step_transaction<S: Serve>(&mut self, serving: &mut Serving<'_, S>) -> InputStep {
        let Some(transaction) = &mut self.transaction else { return InputStep::Took(0) };
        let (Phase::Runs(from) | Phase::Waits(from)) = transaction.phase else {
            self.execute(serving);
            return InputStep::Answered(0);
        };
        transaction.phase = Phase::Runs(from);
        let text = std::mem::take(&mut transaction.text);
        let length = first_length(&text[from..]);
        let args = Args::of_array(&text[from..from + length]);
        self.command(args, CommandOrigin::Transaction, serving);
        serving.context.weigh(length);
        let is_over = from + length == text.len();
        if let Some(transaction) = &mut self.transaction {
            transaction.text = text;
            if transaction.phase == Phase::Waits(from) {
                return InputStep::Took(0);
            }
            transaction.phase = Phase::Runs(from + length);
        }
        if is_over {
            serving.drop_transaction(&mut self.transaction);
        }
        InputStep::Answered(0)
    }
}

/// The bytes of the first command of queued text, which consists of arrays.
fn first_length(text: &[u8]) -> usize {
    match Scan::default().scan(text, ANY) {
        Ok(Scanned::Array(end)) => end,
        _ => text.len(),
    }
}

/// The queued commands. `set` has registers, so whatever was queued is in it.
fn queued(
    mut text: &[u8],
    set: CommandSet,
) -> impl Iterator<Item = (&'static Command, Args<'_>)> + Clone {
    std::iter::from_fn(move || {
        let (first, rest) = text.split_at(first_length(text));
        text = rest;
        let mut args = Args::of_array(first);
        let command = set.find(args.next()?)?;
        Some((command, args))
    })
}

impl<S: Serve> Serving<'_, S> {
    /// Ends a transaction, if there is one.
    pub(super) fn drop_transaction(&mut self, transaction: &mut Option<Transaction>) {
        if let Some(mut transaction) = transaction.take() {
            transaction.give_back(&mut self.context.scratch.pool);
        }
    }
}
