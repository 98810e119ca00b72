//! The result of a command, and its output.
//!
//! Invariant: a closed pipe is not a failure. The command ends quietly, as `head` expects.

use frs_base::causes::with_causes;
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

/// The result of a command that ran to its end.
pub enum Completed {
    /// The command found nothing wrong.
    Clean,
    /// The command found something wrong or missing, and has reported it.
    FoundProblems,
}

impl Completed {
    pub fn with_problems(has_problems: bool) -> Completed {
        if has_problems { Completed::FoundProblems } else { Completed::Clean }
    }
}

/// The reason for which a command did not run to its end.
pub enum Failure {
    /// The reader of the output has closed the pipe.
    Closed,
    /// Another reason, in words.
    Message(String),
}

impl Failure {
    pub fn of(error: impl std::fmt::Display) -> Failure {
        Failure::Message(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Message(format!("cannot write the output: {error}")),
        }
    }
}

impl From<frs_engine::inspect::Error> for Failure {
    fn from(error: frs_engine::inspect::Error) -> Failure {
        Failure::of(error)
    }
}

/// Standard output.
pub type Output = BufWriter<StdoutLock<'static>>;

pub fn out() -> Output {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Writes a line to standard error. Ignores failures.
pub fn print_error(line: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Reports the parts of a data directory that cannot be read. Returns whether there are any.
pub fn print_faults(reader: &frs_engine::inspect::Reader) -> bool {
    let mut any = false;
    for fault in reader.unread() {
        any = true;
        print_error(with_causes(fault));
    }
    for fault in reader.faults() {
        any = true;
        print_error(fault);
    }
    any
}

/// Ends a command. Flushes its output.
pub fn finish(mut out: Output, done: Completed) -> Result<Completed, Failure> {
    out.flush()?;
    Ok(done)
}
