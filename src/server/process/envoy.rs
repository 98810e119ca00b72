//! frs-envoy as a child of the master: a separate program that inherits a listener and a channel.
//!
//! Invariant: the process that executes frs-envoy is and stays the master's child. So the master
//! supervises it as any child, and it ends with the master.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::child::ChildContext;
use super::log;
pub use crate::net::listeners::PlainListener;
use frs_base::sys::process::{self, Channel};
use frs_conf::{Log, envoy_program};

/// The variable that names the descriptors that frs-envoy inherits.
const DESCRIPTORS_VARIABLE: &str = "FRS_ENVOY";

/// The reason why a child did not become frs-envoy.
#[derive(Debug, thiserror::Error)]
pub enum EnvoyError {
    /// There is no listener to inherit.
    #[error("there is no <rls> in the configuration that this server started with")]
    NoListener,
    /// The program cannot be executed.
    #[error("cannot execute {path}: {source}")]
    Exec {
        /// The program.
        path: String,
        /// The reason.
        source: io::Error,
    },
}

/// Becomes frs-envoy. Returns only on failure.
///
/// # Errors
/// The child did not become frs-envoy, and the master replaces it.
pub fn become_program(child: ChildContext) -> Result<Infallible, EnvoyError> {
    let program = envoy_program();
    let listener = child.inherited.share.envoy.as_ref().ok_or(EnvoyError::NoListener)?;
    let kind = match listener {
        PlainListener::Tcp(_) => "tcp",
        PlainListener::Unix(_) => "unix",
    };
    let (listener, channel) = (listener.as_fd(), child.inherited.channel.as_fd());
    let passed = [listener, channel].into_iter().try_for_each(process::pass_on);
    let source = passed.err().unwrap_or_else(|| {
        let (channel, listener) = (channel.as_raw_fd(), listener.as_raw_fd());
        Command::new(&program)
            .arg("serve")
            .arg("--data")
            .arg(&child.inherited.data_dir)
            .env(DESCRIPTORS_VARIABLE, format!("channel={channel} {kind}={listener}"))
            .exec()
    });
    Err(EnvoyError::Exec { path: program.display().to_string(), source })
}

/// The descriptors that frs-envoy inherits.
pub struct InheritedDescriptors {
    /// The channel to the master.
    pub channel: Channel,
    /// The listener that Envoy connects to.
    pub listener: PlainListener,
}

impl InheritedDescriptors {
    /// Takes the inherited descriptors, before this process opens any. Returns `None` if frs has
    /// not started this process.
    ///
    /// # Errors
    /// The variable or a descriptor does not have the form that frs leaves.
    pub fn take() -> io::Result<Option<InheritedDescriptors>> {
        let Some(value) = process::take_variable(DESCRIPTORS_VARIABLE)? else { return Ok(None) };
        let wrong =
            || io::Error::other(format!("{DESCRIPTORS_VARIABLE}={value:?}: not understood"));
        let (channel, listener, is_tcp) = value.to_str().and_then(read).ok_or_else(wrong)?;
        let mut fds = process::adopt(&[channel, listener])?.into_iter();
        let (Some(channel), Some(listener)) = (fds.next(), fds.next()) else { return Err(wrong()) };
        let listener = match is_tcp {
            true => PlainListener::Tcp(listener.into()),
            false => PlainListener::Unix(listener.into()),
        };
        Ok(Some(InheritedDescriptors { channel: Channel::from_inherited(channel), listener }))
    }
}

/// The numbers of the channel and of the listener, and whether the listener is one of TCP.
fn read(text: &str) -> Option<(RawFd, RawFd, bool)> {
    let (channel, listener) = text.split_once(' ')?;
    let (kind, listener) = listener.split_once('=')?;
    let is_tcp = match kind {
        "tcp" => true,
        "unix" => false,
        _ => return None,
    };
    let channel = channel.strip_prefix("channel=")?.parse().ok()?;
    Some((channel, listener.parse().ok()?, is_tcp))
}

/// Starts the log of frs-envoy. If its file cannot be opened, lines go to standard error.
pub fn start_log(configured: &Log) {
    if let Err(error) = log::start(configured) {
        let _ = log::start(&Log { file: None, ..configured.clone() });
        tracing::error!(%error, "cannot open the log's file: lines go to standard error");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_read_as_they_are_written() {
        assert_eq!(read("channel=5 tcp=6"), Some((5, 6, true)));
        assert_eq!(read("channel=5 unix=6"), Some((5, 6, false)));
        for wrong in ["", "channel=5", "channel=x tcp=6", "channel=5 udp=6", "tcp=6 channel=5"] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
