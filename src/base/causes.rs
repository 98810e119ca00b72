//! An error and its causes, in words.
//!
//! Invariant: no cause appears twice, whether a message names its cause or leaves it to its source.

use std::error::Error;

/// An error and its sources on one line. A source is left out if the text already ends with it.
pub fn with_causes(error: &dyn Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text += ": ";
            text += &words;
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("cannot attach")]
        Plain(#[source] Inner),
        #[error("cannot attach: {0}")]
        Telling(#[source] Inner),
    }

    #[derive(Debug, thiserror::Error)]
    #[error("data/lock: cannot open: {0}")]
    struct Inner(#[source] io::Error);

    // Shows: clear-messages.
    #[test]
    fn each_cause_is_said_once() {
        let inner = || Inner(io::Error::from_raw_os_error(2));
        let expected =
            "cannot attach: data/lock: cannot open: No such file or directory (os error 2)";
        assert_eq!(with_causes(&Outer::Plain(inner())), expected);
        assert_eq!(with_causes(&Outer::Telling(inner())), expected);
    }
}
