//! What a forked child gets of the master.
//!
//! Invariant: of the master's descriptors a child keeps its own listeners and its end of the
//! channel, nothing else.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::account::Account;
use crate::net::listeners::Share;
use frs::base::sys::process::{self, Channel, Pid, Signal, Signals};
use frs::conf::Conf;
use frs::store::ChildRole;

/// A child before it has settled.
pub struct ForkedChild {
    pub(crate) role: ChildRole,
    pub(crate) channel: Channel,
    pub(crate) share: Share,
    pub(crate) conf: Arc<Conf>,
    pub(crate) conf_dir: PathBuf,
    pub(crate) account: Option<Account>,
    pub(crate) master: Pid,
}

/// A child that has its own user, signals and ties to the master.
pub struct ChildContext {
    /// What it is there for.
    pub role: ChildRole,
    /// To the master.
    pub channel: Channel,
    /// What it listens on.
    pub share: Share,
    /// SIGTERM: finish; SIGQUIT: drain.
    pub signals: Signals,
    /// Where the configuration is.
    pub conf_dir: PathBuf,
    /// The master.
    pub master: Pid,
    /// Where the store is.
    pub data_dir: PathBuf,
    /// Descriptors that this process may open.
    pub files_max: u64,
}

impl ForkedChild {
    /// What it is to become.
    pub fn role(&self) -> ChildRole {
        self.role
    }

    /// Becomes a process of its own; none if the master died meanwhile.
    pub fn init(self) -> io::Result<Option<ChildContext>> {
        if let Some(account) = &self.account {
            account.become_for_good()?;
        }
        // Those of a terminal go to all processes at once; it is the master who acts on them.
        let ignored = [Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
        let signals = Signals::take(&[Signal::SIGTERM, Signal::SIGQUIT], &ignored)?;
        if !process::follow_parent(self.master, Signal::SIGTERM)? {
            return Ok(None);
        }
        Ok(Some(ChildContext {
            role: self.role,
            channel: self.channel,
            share: self.share,
            signals,
            conf_dir: self.conf_dir,
            master: self.master,
            data_dir: self.conf.srv.data.dir.clone(),
            files_max: process::raise_file_limit()?,
        }))
    }
}
