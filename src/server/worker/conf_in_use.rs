//! The configuration that a worker uses: the srv.xml in force, with the tokens of `<resp>`.
//!
//! Invariant: the tokens are those that the master has read. A token that the master has not read
//! admits no client.

use std::sync::Arc;

use crate::process::token_board::TokenBoard;
use frs_conf::{Conf, Srv};

/// The configuration of a worker.
#[derive(Debug)]
pub struct ConfInUse {
    /// The configuration that `srv` was made from.
    source: Arc<Conf>,
    /// The srv.xml of that configuration, with tokens.
    pub srv: Srv,
}

impl ConfInUse {
    /// Combines a configuration with the tokens of the master.
    pub fn of(source: &Arc<Conf>, tokens: &TokenBoard) -> ConfInUse {
        let mut srv = source.srv.clone();
        match tokens.read() {
            Some(tokens) => srv.set_tokens(tokens),
            None => tracing::error!("cannot read the tokens of <resp>: they let nobody in"),
        }
        ConfInUse { source: Arc::clone(source), srv }
    }

    /// Whether this was made from `source`.
    pub fn is_of(&self, source: &Arc<Conf>) -> bool {
        Arc::ptr_eq(&self.source, source)
    }
}
