//! The configuration that a worker uses: the srv.xml in force, and its clients.
//!
//! Invariant: the tokens are those that the master has read. Without them, nobody shows a right
//! one.

use std::sync::Arc;

use super::connection::Gate;
use crate::process::token_board::TokenBoard;
use frs_conf::{Conf, Srv};
use frs_engine::access::Access;
use frs_store::Handle;

/// The configuration of a worker.
#[derive(Debug)]
pub struct ConfInUse {
    conf: Arc<Conf>,
    /// The clients. `None` if no listener tells callers apart.
    access: Option<Access>,
    /// Counts the configurations of this process, from 1.
    generation: u64,
}

impl ConfInUse {
    /// Combines the first configuration with the tokens of the master. `handle` counts the items of
    /// its clients.
    pub fn of(conf: &Arc<Conf>, tokens: &TokenBoard, handle: &Handle) -> ConfInUse {
        let needs_tokens = conf.srv.resps.iter().any(|resp| resp.token_file.is_some());
        let access = (conf.srv.clients.is_some() || needs_tokens).then(|| {
            let digests = tokens.read();
            if digests.is_none() {
                tracing::error!("cannot read the tokens of clients: they let nobody in");
            }
            let mut access = Access::of(conf, digests);
            access.count_in(handle);
            access
        });
        ConfInUse { conf: Arc::clone(conf), access, generation: 1 }
    }

    /// The configuration that follows this one.
    pub fn next(&self, conf: &Arc<Conf>, tokens: &TokenBoard, handle: &Handle) -> ConfInUse {
        ConfInUse { generation: self.generation + 1, ..ConfInUse::of(conf, tokens, handle) }
    }

    /// The srv.xml.
    #[inline]
    pub fn srv(&self) -> &Srv {
        &self.conf.srv
    }

    /// The clients, for connections.
    #[inline]
    pub fn gate(&self) -> Option<Gate<'_>> {
        let access = self.access.as_ref()?;
        Some(Gate { access, map: &self.conf.map, generation: self.generation })
    }

    /// Whether this was made from `conf`.
    pub fn is_of(&self, conf: &Arc<Conf>) -> bool {
        Arc::ptr_eq(&self.conf, conf)
    }
}
