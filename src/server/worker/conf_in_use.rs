//! The configuration that a worker works with: srv.xml in force, with the tokens of `<resp>`.
//!
//! Invariant: tokens are those that the master has read. What it has not read lets nobody in.

use std::sync::Arc;

use crate::process::token_board::TokenBoard;
use frs_conf::{Conf, Srv};

/// The configuration of a worker.
#[derive(Debug)]
pub struct ConfInUse {
    /// What it was made from.
    source: Arc<Conf>,
    /// Its srv.xml.
    pub srv: Srv,
}

impl ConfInUse {
    /// Takes a configuration.
    pub fn of(source: &Arc<Conf>, tokens: &TokenBoard) -> ConfInUse {
        let mut srv = source.srv.clone();
        match tokens.read() {
            Some(tokens) => srv.set_tokens(tokens),
            None => tracing::error!("cannot read the tokens of <resp>: they let nobody in"),
        }
        ConfInUse { source: Arc::clone(source), srv }
    }

    /// Whether it was made from this configuration.
    pub fn is_of(&self, source: &Arc<Conf>) -> bool {
        Arc::ptr_eq(&self.source, source)
    }
}
