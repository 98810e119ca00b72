//! The state that a forked child gets from the master.
//!
//! Invariant: of the master's descriptors, a child keeps only its own listeners, its end of the
//! channel, the boards of tokens and of its certificates, in the keeper a connection for requests
//! and, in workers and the cluster's child, the doorbells.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::bells::Bells;
use super::token_board::TokenBoard;
use crate::account::Account;
use crate::net::listeners::ListenerShare;
use crate::tls::board::TlsShare;
use frs_base::sys::process::{self, Channel, Pid, Signal, Signals};
use frs_conf::ClusterSecrets;
use frs_store::ChildPlace;

/// The role of a child of the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildRole {
    /// The worker of this number, from 0.
    Worker(u16),
    /// The keeper.
    Keeper,
    /// The process that talks to the cluster, if there is one.
    Cluster,
    /// frs-envoy, if there is `<rls>`.
    Envoy,
}

impl std::fmt::Display for ChildRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ChildRole::Worker(number) => write!(f, "worker {number}"),
            ChildRole::Keeper => write!(f, "keeper"),
            ChildRole::Cluster => write!(f, "courier"),
            ChildRole::Envoy => write!(f, "envoy"),
        }
    }
}

impl ChildRole {
    /// Its place in runtime.mmap.
    pub fn place(self) -> ChildPlace {
        match self {
            ChildRole::Worker(number) => ChildPlace::Worker(number),
            ChildRole::Keeper => ChildPlace::Keeper,
            ChildRole::Cluster => ChildPlace::Extension,
            ChildRole::Envoy => ChildPlace::Envoy,
        }
    }
}

/// A child before [`ForkedChild::init`].
pub struct ForkedChild {
    /// The future role of the child.
    pub role: ChildRole,
    pub(crate) account: Option<Account>,
    pub(crate) inherited: Inheritance,
}

/// The descriptors and settings that a child inherits from the master.
pub struct Inheritance {
    /// The channel to the master.
    pub channel: Channel,
    /// In the keeper: the connection for requests of the admin plane.
    pub control: Option<UnixStream>,
    /// The listeners of this child.
    pub share: ListenerShare,
    /// The directory of the configuration.
    pub conf_dir: PathBuf,
    /// The process id of the master.
    pub master: Pid,
    /// The directory of the store.
    pub data_dir: PathBuf,
    /// The doorbells, in workers and the cluster's child.
    pub bells: Option<Bells>,
    /// The contents of the cluster's secret files, in its child, which may not read these files
    /// itself.
    pub secrets: Option<Box<ClusterSecrets>>,
    /// The tokens of clients.
    pub tokens: TokenBoard,
    /// The certificates of this child's listeners, with their keys. `None` without listeners.
    pub tls: Option<TlsShare>,
}

/// A child with its own user and signals, tied to the master's life.
pub struct ChildContext {
    /// What it keeps of the master.
    pub inherited: Inheritance,
    /// The signals: SIGTERM finishes, SIGQUIT drains.
    pub signals: Signals,
    /// The most descriptors that this process may open.
    pub files_max: u64,
}

impl ForkedChild {
    /// Becomes an independent process. Returns `None` if the master died meanwhile.
    pub fn init(self) -> io::Result<Option<ChildContext>> {
        if let Some(account) = &self.account {
            account.become_for_good()?;
        }
        // A terminal sends these signals to all processes at once. Only the master acts on them.
        let ignored = [Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
        let signals = Signals::take(&[Signal::SIGTERM, Signal::SIGQUIT], &ignored)?;
        if !process::follow_parent(self.inherited.master, Signal::SIGTERM)? {
            return Ok(None);
        }
        let files_max = process::raise_file_limit()?;
        Ok(Some(ChildContext { inherited: self.inherited, signals, files_max }))
    }
}
