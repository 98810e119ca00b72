//! What a process serves its listeners with: a configuration of rustls for each `<tls>`.
//!
//! Invariant: a `<tls>` whose files cannot be used keeps the configuration that it had. A listener
//! that names a `<tls>` without any serves nobody, rather than plain text.

use std::sync::Arc;

use rustls::ServerConfig;

use super::board::TlsShare;
use super::identity::Identity;
use super::tickets::{TicketBoard, Tickets};
use frs_conf::Srv;

/// The protocol that every listener but `<rls>` offers by ALPN.
pub const HTTP_1_1: &[u8] = b"http/1.1";

/// The configurations of a process.
#[derive(Debug, Clone)]
pub struct TlsConfigs {
    by_name: Vec<(String, Arc<ServerConfig>)>,
    tickets: Arc<TicketBoard>,
}

impl TlsConfigs {
    /// No configurations. Those made later use these tickets.
    pub fn new(tickets: TicketBoard) -> TlsConfigs {
        TlsConfigs { by_name: Vec::new(), tickets: Arc::new(tickets) }
    }

    /// Makes the configurations anew from the files in force, for the protocol `alpn`.
    pub fn take(&mut self, srv: &Srv, share: &TlsShare, alpn: &[u8]) {
        if srv.tls.is_empty() {
            self.by_name.clear();
            return;
        }
        let Some(material) = share.read() else {
            tracing::error!("cannot read the certificates of <tls>: the former ones stay");
            return;
        };
        let mut by_name = Vec::new();
        for block in &srv.tls {
            // Files that this process does not need are not in its share.
            let files = material.get(&block.name).filter(|files| !files.key.is_empty());
            let Some(files) = files else { continue };
            let made = Identity::of(block, files).map(|identity| {
                let mut config = identity.config(alpn);
                config.ticketer =
                    Arc::new(Tickets::new(Arc::clone(&self.tickets), identity.digest));
                Arc::new(config)
            });
            let config = match made {
                Ok(config) => Some(config),
                Err(error) => {
                    tracing::error!(%error, tls = block.name, "the former certificate stays");
                    self.get(&block.name).cloned()
                }
            };
            by_name.extend(config.map(|config| (block.name.clone(), config)));
        }
        self.by_name = by_name;
    }

    /// The configuration of the `<tls>` of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ServerConfig>> {
        self.by_name.iter().find(|(known, _)| known == name).map(|(_, config)| config)
    }

    /// What is spoken at a listener with this `tls`.
    pub fn spoken(&self, name: Option<&str>) -> Spoken {
        match name.map(|name| self.get(name)) {
            None => Spoken::Plain,
            Some(Some(config)) => Spoken::Tls(Arc::clone(config)),
            Some(None) => Spoken::Nothing,
        }
    }
}

/// What is spoken at a listener.
#[derive(Debug, Clone)]
pub enum Spoken {
    /// Plain text.
    Plain,
    /// TLS.
    Tls(Arc<ServerConfig>),
    /// Its certificate cannot be read, so its clients are closed.
    Nothing,
}
