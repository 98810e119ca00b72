//! The stamp of a run: the words of its command line, the time at which it began, and the version.

use std::fmt;

use frs_base::clock::{self, Millis};
use frs_base::figures::time;

/// The values that identify a run.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The words after the program's name.
    pub words: Vec<String>,
    pub began_ms: Millis,
    pub version: &'static str,
}

impl Stamp {
    /// The stamp of this process, whose run begins now.
    pub fn now() -> Stamp {
        let words = std::env::args_os().skip(1);
        Stamp {
            words: words.map(|word| word.to_string_lossy().into_owned()).collect(),
            began_ms: clock::now(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frs-load {}, begun {}", self.version, time(self.began_ms, 0))
    }
}
