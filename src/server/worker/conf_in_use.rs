//! The configuration that a worker works with: srv.xml in force, with the tokens of `<resp>`.
//!
//! Invariant: files are read when a configuration is taken, and never for a request. A token that
//! cannot be read is the one before, and lets nobody in if there is none.

use std::sync::Arc;

use frs::conf::{Conf, Srv};

/// The configuration of a worker.
#[derive(Debug)]
pub struct ConfInUse {
    /// What it was made from.
    source: Arc<Conf>,
    /// Its srv.xml.
    pub srv: Srv,
}

impl ConfInUse {
    /// Takes a configuration. `before` is the one that it replaces: a switch or a reset checks no
    /// files.
    pub fn of(source: &Arc<Conf>, before: Option<&ConfInUse>) -> ConfInUse {
        let mut srv = source.srv.clone();
        for error in srv.read_tokens() {
            tracing::error!("{error}: its <resp> lets in who names the token read before, if any");
        }
        if let Some(before) = before {
            srv.keep_tokens(&before.srv);
        }
        ConfInUse { source: Arc::clone(source), srv }
    }

    /// Whether it was made from this configuration.
    pub fn is_of(&self, source: &Arc<Conf>) -> bool {
        Arc::ptr_eq(&self.source, source)
    }
}
