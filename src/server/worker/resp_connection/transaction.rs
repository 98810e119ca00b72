//! MULTI, EXEC and DISCARD: commands that are kept as text and run in order.
//!
//! Invariant: the kept text is within max-body. A transaction runs as if its commands arrived from
//! the client one after another: nothing is rolled back, and other clients are served in between.

use super::{CommandOrigin, RespConnection, Serving};
use crate::protocol::resp::{
    Args, CommandBounds, CommandError, Fault, Scan, Scanned, command_bytes, push_command,
};
use crate::worker::buffer_pool::{BufferPool, make_room};
use crate::worker::connection::{InputStep, Serve};

/// Bounds for commands that were within the bounds when they were queued.
const ANY: CommandBounds = CommandBounds { arguments: u32::MAX, bytes: usize::MAX / 2 };

/// Commands between MULTI and the end of EXEC.
#[derive(Debug)]
pub(super) struct Transaction {
    /// The queued commands as RESP arrays.
    text: Vec<u8>,
    commands: usize,
    /// Whether a command could not be queued.
    is_spoiled: bool,
    /// The offset of the next command in `text`, once EXEC has begun.
    next: Option<usize>,
}

impl Transaction {
    /// Notes that a command could not be queued.
    pub fn spoil(&mut self) {
        self.is_spoiled = true;
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
        self.transaction.as_ref().is_some_and(|transaction| transaction.next.is_some())
    }

    /// MULTI.
    pub(super) fn begin<S: Serve>(&mut self, serving: &mut Serving<'_, S>) {
        if self.transaction.is_some() {
            return serving.error(self.session.version, CommandError::NestedMulti);
        }
        let text = serving.context.scratch.pool.take(&[]);
        self.transaction = Some(Transaction { text, commands: 0, is_spoiled: false, next: None });
        serving.simple(self.session.version, "OK");
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
        if transaction.is_spoiled {
            serving.drop_transaction(&mut self.transaction);
            return serving.error(version, CommandError::ExecAbort);
        }
        let commands = transaction.commands;
        transaction.next = Some(0);
        serving.short(version, |writer| writer.array(commands));
        if commands == 0 {
            serving.drop_transaction(&mut self.transaction);
        }
    }

    /// Answers the next command of the running transaction.
    pub(super) fn step_transaction<S: Serve>(&mut self, serving: &mut Serving<'_, S>) -> InputStep {
        let Some(transaction) = &mut self.transaction else { return InputStep::Took(0) };
        let from = transaction.next.unwrap_or(0);
        let text = std::mem::take(&mut transaction.text);
        // The queued text consists of arrays.
        let length = match Scan::default().scan(&text[from..], ANY) {
            Ok(Scanned::Array(end)) => end,
            _ => text.len() - from,
        };
        let args = Args::of_array(&text[from..from + length]);
        self.command(args, CommandOrigin::Transaction, serving);
        serving.context.weigh(length);
        let is_over = from + length == text.len();
        if let Some(transaction) = &mut self.transaction {
            (transaction.text, transaction.next) = (text, Some(from + length));
        }
        if is_over {
            serving.drop_transaction(&mut self.transaction);
        }
        InputStep::Answered(0)
    }
}

impl<S: Serve> Serving<'_, S> {
    /// Ends a transaction, if there is one.
    pub(super) fn drop_transaction(&mut self, transaction: &mut Option<Transaction>) {
        if let Some(mut transaction) = transaction.take() {
            transaction.give_back(&mut self.context.scratch.pool);
        }
    }
}
