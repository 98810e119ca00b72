//! The result of a command, and its output.
//!
//! Invariant: a closed pipe is not a failure. The command ends quietly, as `head` expects.

use frs_base::causes::with_causes;
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

/// The result of a command that ran to its end.
pub enum Done {
    /// The command found nothing wrong.
    Fine,
    /// The command found something wrong or missing, and has reported it.
    Off,
}

impl Done {
    pub fn off_if(is_off: bool) -> Done {
        if is_off { Done::Off } else { Done::Fine }
    }
}

/// The reason for which a command did not run to its end.
pub enum Failed {
    /// The reader of the output has closed the pipe.
    Closed,
    /// Another reason, in words.
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

impl From<frs_engine::inspect::Error> for Failed {
    fn from(error: frs_engine::inspect::Error) -> Failed {
        Failed::of(error)
    }
}

impl From<frs_store::Error> for Failed {
    fn from(error: frs_store::Error) -> Failed {
        Failed::of(error)
    }
}

/// Standard output.
pub type Out = BufWriter<StdoutLock<'static>>;

pub fn out() -> Out {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Writes a line to standard error. Ignores failures.
pub fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Reports the parts of a data directory that cannot be read. Returns whether there are any.
pub fn say_faults(reader: &frs_engine::inspect::Reader) -> bool {
    let mut any = false;
    for fault in reader.unread() {
        any = true;
        say(with_causes(fault));
    }
    for fault in reader.faults() {
        any = true;
        say(fault);
    }
    any
}

/// Ends a command. Flushes its output.
pub fn finish(mut out: Out, done: Done) -> Result<Done, Failed> {
    out.flush()?;
    Ok(done)
}
