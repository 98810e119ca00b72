//! The child that prepares the store before anything else is started.
//!
//! Invariant: the master maps no group, so that a page that faults cannot kill it. The child holds
//! the directory's lock, too: should the master die, no other one starts before it is gone.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use crate::conf::Conf;
use crate::store::{self, Prepared};
use crate::sys::process::{self, Exit, Forked, Pid, PollFd, PollFlags, Signal, Signals};

/// Why the store is not prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The store says why.
    #[error("{0}")]
    Store(String),
    /// The child ended without a word.
    #[error("the process that prepares the store ended with {0}")]
    Died(Exit),
    /// It could not be started or heard.
    #[error("cannot prepare the store: {0}")]
    Io(#[from] io::Error),
}

/// Runs [`store::prepare`] in a child. None: it was broken off by a signal to end, which it may at
/// any point.
pub fn prepare(
    conf: &Conf,
    signals: &Signals,
    become_user: impl FnOnce() -> io::Result<()>,
) -> Result<Option<Prepared>, PrepareError> {
    let (mut reader, mut writer) = process::pipe()?;
    let master = Pid::this();
    let child = match process::fork()? {
        Forked::Child => {
            drop(reader);
            let text = in_child(conf, master, become_user);
            let told = writer.write_all(text.as_bytes());
            std::process::exit(i32::from(told.is_err()));
        }
        Forked::Parent(child) => child,
    };
    drop(writer);
    let mut text = String::new();
    loop {
        let mut ready = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(reader.as_fd(), PollFlags::POLLIN),
        ];
        process::poll(&mut ready, None)?;
        let is_ready = ready.map(|fd| fd.any().unwrap_or(false));
        if is_ready[0] && asked_to_end(signals)? {
            process::signal(child, Signal::SIGKILL)?;
            process::wait_for(child)?;
            return Ok(None);
        }
        if is_ready[1] {
            // The child writes its whole answer at once, at its end.
            reader.read_to_string(&mut text)?;
            break;
        }
    }
    let exit = process::wait_for(child)?;
    decode(&text).unwrap_or(Err(PrepareError::Died(exit))).map(Some)
}

fn in_child(conf: &Conf, master: Pid, become_user: impl FnOnce() -> io::Result<()>) -> String {
    let _name = super::log::name_process("prepare");
    let settled = become_user().and_then(|()| process::follow_parent(master, Signal::SIGKILL));
    match settled {
        Ok(true) => encode(&store::prepare(conf)),
        Ok(false) => "error the master is gone\n".to_owned(),
        Err(error) => format!("error {error}\n"),
    }
}

fn asked_to_end(signals: &Signals) -> io::Result<bool> {
    while let Some(signal) = signals.next()? {
        match signal {
            Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT => return Ok(true),
            Signal::SIGCHLD => {}
            other => tracing::info!(signal = %other, "too early: the store is being prepared"),
        }
    }
    Ok(false)
}

fn encode(result: &Result<Prepared, store::Error>) -> String {
    match result {
        Err(error) => format!("error {error}\n"),
        Ok(prepared) => {
            let Prepared { created, recovered_slots, scanned, dropped_nodes } = prepared;
            let mut text = format!("ok {recovered_slots} {scanned} {dropped_nodes}");
            created.iter().for_each(|group| {
                let _ = write!(text, " {group}");
            });
            text + "\n"
        }
    }
}

fn decode(text: &str) -> Option<Result<Prepared, PrepareError>> {
    let text = text.strip_suffix('\n')?;
    if let Some(error) = text.strip_prefix("error ") {
        return Some(Err(PrepareError::Store(error.to_owned())));
    }
    let mut words = text.strip_prefix("ok ")?.split(' ');
    Some(Ok(Prepared {
        recovered_slots: words.next()?.parse().ok()?,
        scanned: words.next()?.parse().ok()?,
        dropped_nodes: words.next()?.parse().ok()?,
        created: words.map(str::to_owned).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_child_says_is_understood() {
        let prepared = Prepared {
            created: vec!["default".into(), "log".into()],
            recovered_slots: 3,
            scanned: true,
            dropped_nodes: 17,
        };
        for prepared in [prepared, Prepared::default()] {
            let text = encode(&Ok(prepared.clone()));
            assert_eq!(decode(&text).expect("whole").expect("no error"), prepared);
            assert!(decode(text.trim_end()).is_none(), "cut off");
        }
        assert!(matches!(decode("error a\nb\n"), Some(Err(PrepareError::Store(e))) if e == "a\nb"));
        assert!(decode("").is_none());
    }
}
