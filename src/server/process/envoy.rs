//! frs-envoy as a child of the master: a separate program that inherits a listener, a channel and
//! the board of tokens.
//!
//! Invariant: the process that executes frs-envoy is and stays the master's child. So the master
//! supervises it as any child, and it ends with the master.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::child::ChildContext;
use super::log;
use super::token_board::TokenBoard;
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
    let inherited = &child.inherited;
    let tls = inherited.tls.as_ref().ok_or(EnvoyError::NoListener)?;
    let [files, tickets] = tls.fds();
    let channel = inherited.channel.as_fd();
    let fds = [channel, listener.as_fd(), inherited.tokens.as_fd(), files, tickets];
    let passed = fds.into_iter().try_for_each(process::pass_on);
    let source = passed.err().unwrap_or_else(|| {
        let [channel, listener, tokens, files, tickets] = fds.map(|fd| fd.as_raw_fd());
        let own = format!("channel={channel} {kind}={listener}");
        Command::new(&program)
            .arg("serve")
            .arg("--data")
            .arg(&inherited.data_dir)
            .env(DESCRIPTORS_VARIABLE, format!("{own} tokens={tokens} tls={files},{tickets}"))
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
    /// The tokens of clients.
    pub tokens: TokenBoard,
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
        let numbers = value.to_str().and_then(read).ok_or_else(wrong)?;
        let Numbers { channel, listener, is_tcp, tokens, tls: [files, tickets] } = numbers;
        let adopted = process::adopt(&[channel, listener, tokens, files, tickets])?;
        let Ok([channel, listener, tokens, files, tickets]) = <[OwnedFd; 5]>::try_from(adopted)
        else {
            return Err(wrong());
        };
        let listener = match is_tcp {
            true => PlainListener::Tcp(listener.into()),
            false => PlainListener::Unix(listener.into()),
        };
        Ok(Some(InheritedDescriptors {
            channel: Channel::from_inherited(channel),
            listener,
            tokens: TokenBoard::adopt(tokens),
            tls: TlsShare::adopt([files, tickets]),
        }))
    }
}

/// The numbers of the descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    channel: RawFd,
    listener: RawFd,
    /// Whether the listener is one of TCP.
    is_tcp: bool,
    tokens: RawFd,
    /// Of the files of certificates, and of the keys of tickets.
    tls: [RawFd; 2],
}

fn read(text: &str) -> Option<Numbers> {
    let mut words = text.split(' ').map(|word| word.split_once('='));
    let mut next = || words.next().flatten();
    let (("channel", channel), (kind, listener), ("tokens", tokens), ("tls", tls)) =
        (next()?, next()?, next()?, next()?)
    else {
        return None;
    };
    let is_tcp = match kind {
        "tcp" => true,
        "unix" => false,
        _ => return None,
    };
    let number = |text: &str| text.parse().ok();
    let (files, tickets) = tls.split_once(',')?;
    let (channel, listener, tokens) = (number(channel)?, number(listener)?, number(tokens)?);
    let tls = [number(files)?, number(tickets)?];
    words.next().is_none().then_some(Numbers { channel, listener, is_tcp, tokens, tls })
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
        let numbers = Numbers { channel: 5, listener: 6, is_tcp: true, tokens: 7, tls: [8, 9] };
        assert_eq!(read("channel=5 tcp=6 tokens=7 tls=8,9"), Some(numbers));
        let numbers = Numbers { is_tcp: false, ..numbers };
        assert_eq!(read("channel=5 unix=6 tokens=7 tls=8,9"), Some(numbers));
        for wrong in [
            "",
            "channel=5",
            "channel=5 tcp=6 tokens=7",
            "channel=x tcp=6 tokens=7 tls=8,9",
            "channel=5 udp=6 tokens=7 tls=8,9",
            "tcp=6 channel=5 tokens=7 tls=8,9",
            "channel=5 tcp=6 tokens=7 tls=8",
            "channel=5 tcp=6 tokens=7 tls=8,9 more=10",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
