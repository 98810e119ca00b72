//! A connection on its own, for tests, benches and fuzz/. A worker answers the connections of a
//! batch together.
//!
//! Invariant: the answers equal those of a batch that has only this connection.

use super::{
    Connection, ConnectionBuffers, ConnectionRules, InputProgress, ParkedItem, RequestContext,
    RespRules, Serve,
};
use crate::worker::resp_connection::{Input, RespConnection};

impl InputProgress {
    /// The progress of a connection that has something parked, and is neither read nor closed.
    pub fn parked(self) -> InputProgress {
        InputProgress { need: 1, more: false, begun: false, close: false, ..self }
    }
}

impl Connection {
    /// [`Connection::take`], as a batch of its own.
    pub fn advance<S: Serve>(
        &mut self,
        input: &[u8],
        rules: ConnectionRules<'_>,
        serve: &mut S,
        scratch: &mut ConnectionBuffers,
        out: &mut Vec<u8>,
    ) -> InputProgress {
        let context = RequestContext { rules, serve, scratch, out };
        advance(self, context, |own, RequestContext { rules, serve, scratch, out }| {
            own.take(input, rules, serve, scratch, out)
        })
    }
}

impl RespConnection {
    /// [`RespConnection::take`], as a batch of its own.
    pub fn advance<S: Serve>(
        &mut self,
        input: &[u8],
        own: RespRules<'_>,
        serve: &mut S,
        scratch: &mut ConnectionBuffers,
        out: &mut Vec<u8>,
    ) -> InputProgress {
        let context = RequestContext { rules: own.rules, serve, scratch, out };
        advance(self, context, |connection, RequestContext { serve, scratch, out, .. }| {
            connection.take(Input::all(input), own, serve, scratch, out)
        })
    }
}

impl<'a> Input<'a> {
    /// Input without more bytes in the socket.
    pub fn all(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, has_more: false }
    }
}

/// A connection that can park items, in any protocol.
pub(in crate::worker) trait Parks {
    /// The parked items.
    fn parked(&mut self) -> &mut Vec<ParkedItem>;
}

impl Parks for Connection {
    fn parked(&mut self) -> &mut Vec<ParkedItem> {
        &mut self.parked
    }
}

impl Parks for RespConnection {
    fn parked(&mut self) -> &mut Vec<ParkedItem> {
        &mut self.parked
    }
}

/// Answers the input of one connection as a batch of its own. `take` reads that input.
fn advance<C: Parks, S: Serve>(
    connection: &mut C,
    context: RequestContext<'_, S>,
    take: impl FnOnce(&mut C, RequestContext<'_, S>) -> InputProgress,
) -> InputProgress {
    let RequestContext { rules, serve, scratch, out } = context;
    scratch.begin_batch();
    scratch.begin_connection();
    let lent = RequestContext { rules, serve: &mut *serve, scratch: &mut *scratch, out: &mut *out };
    let progress = take(connection, lent);
    scratch.flush(rules, serve, out);
    connection.parked().extend(scratch.take_parked().map(|(_, parked)| parked));
    if connection.parked().is_empty() { progress } else { progress.parked() }
}
