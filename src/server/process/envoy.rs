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
use crate::tls::board::TlsShare;
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
    let tls = child.inherited.tls.as_ref().ok_or(EnvoyError::NoListener)?;
    let (listener, channel) = (listener.as_fd(), child.inherited.channel.as_fd());
    let [files, tickets] = tls.fds();
    let passed = [listener, channel, files, tickets].into_iter().try_for_each(process::pass_on);
    let source = passed.err().unwrap_or_else(|| {
        let (channel, listener) = (channel.as_raw_fd(), listener.as_raw_fd());
        let (files, tickets) = (files.as_raw_fd(), tickets.as_raw_fd());
        let tls = format!("tls={files},{tickets}");
        Command::new(&program)
            .arg("serve")
            .arg("--data")
            .arg(&child.inherited.data_dir)
            .env(DESCRIPTORS_VARIABLE, format!("channel={channel} {kind}={listener} {tls}"))
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
    /// The certificate of the listener with its key, and the keys of tickets.
    pub tls: TlsShare,
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
        let named = value.to_str().and_then(read).ok_or_else(wrong)?;
        let numbers = [named.channel, named.listener, named.tls[0], named.tls[1]];
        let fds: Result<[_; 4], _> = process::adopt(&numbers)?.try_into();
        let [channel, listener, files, tickets] = fds.map_err(|_| wrong())?;
        let listener = match named.is_tcp {
            true => PlainListener::Tcp(listener.into()),
            false => PlainListener::Unix(listener.into()),
        };
        let channel = Channel::from_inherited(channel);
        let tls = TlsShare::adopt([files, tickets]);
        Ok(Some(InheritedDescriptors { channel, listener, tls }))
    }
}

/// The numbers of the descriptors.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    channel: RawFd,
    listener: RawFd,
    is_tcp: bool,
    tls: [RawFd; 2],
}

fn read(text: &str) -> Option<Named> {
    let mut words = text.split(' ');
    let (channel, listener, tls) = (words.next()?, words.next()?, words.next()?);
    let (kind, listener) = listener.split_once('=')?;
    let is_tcp = match kind {
        "tcp" => true,
        "unix" => false,
        _ => return None,
    };
    let (channel, tls) = (channel.strip_prefix("channel=")?, tls.strip_prefix("tls=")?);
    let (files, tickets) = tls.split_once(',')?;
    let (channel, listener) = (channel.parse().ok()?, listener.parse().ok()?);
    let tls = [files.parse().ok()?, tickets.parse().ok()?];
    words.next().is_none().then_some(Named { channel, listener, is_tcp, tls })
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
        let of = |is_tcp| Some(Named { channel: 5, listener: 6, is_tcp, tls: [7, 8] });
        assert_eq!(read("channel=5 tcp=6 tls=7,8"), of(true));
        assert_eq!(read("channel=5 unix=6 tls=7,8"), of(false));
        for wrong in [
            "",
            "channel=5 tcp=6",
            "channel=x tcp=6 tls=7,8",
            "channel=5 udp=6 tls=7,8",
            "tcp=6 channel=5 tls=7,8",
            "channel=5 tcp=6 tls=7",
            "channel=5 tcp=6 tls=7,8 more=9",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
