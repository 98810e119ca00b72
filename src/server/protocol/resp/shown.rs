//! Text of a client within an error.
//!
//! Invariant: it holds no line end, and its length is bounded.

use std::fmt;

/// The most bytes of a client's text that an error repeats.
const SHOWN_BYTES: usize = 64;

/// Text of a client: what is not printable is a question mark.
pub(super) struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let shown = &self.0[..self.0.len().min(SHOWN_BYTES)];
        for &byte in shown {
            f.write_char(if matches!(byte, b' '..=b'~') { byte as char } else { '?' })?;
        }
        if shown.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}
