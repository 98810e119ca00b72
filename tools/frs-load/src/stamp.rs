//! The stamp of a run: the words of its command line, when it began, and by which version.

use std::fmt;

use frs::base::clock::{self, Millis};

/// What tells a run from others.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The words behind the program's name.
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

    /// When the run began, as RFC 3339 in UTC; in milliseconds if no calendar has it.
    fn began(&self) -> String {
        let ms = i64::try_from(self.began_ms).ok();
        let instant = ms.and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let text = instant.map(|instant| format!("{instant:.0}"));
        text.unwrap_or_else(|| format!("{} ms", self.began_ms))
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frs-load {}, begun {}", self.version, self.began())
    }
}
