//! How a command ends, and where it writes.
//!
//! Invariant: a closed pipe is no failure: the command ends quietly, as `head` wants it to.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

/// How a command ended that was carried out.
pub enum Done {
    /// Nothing is off.
    Fine,
    /// Something is off, or not there; it has been said.
    Off,
}

impl Done {
    pub fn off_if(is_off: bool) -> Done {
        if is_off { Done::Off } else { Done::Fine }
    }
}

/// Why a command was not carried out.
pub enum Failed {
    /// Nobody reads its output any more.
    Closed,
    /// For this reason.
    Said(String),
}

impl Failed {
    pub fn of(error: impl std::fmt::Display) -> Failed {
        Failed::Said(error.to_string())
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        match error.kind() {
            ErrorKind::BrokenPipe => Failed::Closed,
            _ => Failed::Said(format!("cannot write the output: {error}")),
        }
    }
}

impl From<frs::inspect::Error> for Failed {
    fn from(error: frs::inspect::Error) -> Failed {
        Failed::of(error)
    }
}

impl From<frs::store::Error> for Failed {
    fn from(error: frs::store::Error) -> Failed {
        Failed::of(error)
    }
}

/// Standard output.
pub type Out = BufWriter<StdoutLock<'static>>;

pub fn out() -> Out {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Says a line on standard error. Whether anybody hears it is no matter of the command's.
pub fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// An error and its sources on one line.
fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// Names what of a data directory cannot be read; is there anything?
pub fn say_faults(reader: &frs::inspect::Reader) -> bool {
    let mut any = false;
    for fault in reader.unread() {
        any = true;
        say(with_sources(fault));
    }
    for fault in reader.faults() {
        any = true;
        say(fault);
    }
    any
}

/// Ends a command: what was written is out.
pub fn finish(mut out: Out, done: Done) -> Result<Done, Failed> {
    out.flush()?;
    Ok(done)
}
