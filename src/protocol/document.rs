//! A document in whichever format.
//!
//! Chooses only; what is read and written is the formats' own.

use super::format::{Bounds, Decoded, Format};
use super::{Error, Line, json, xml};
use crate::service::{Answers, Command, Request};

/// Reads the document `body` into `request`, which is emptied first.
#[inline]
pub fn read(
    format: Format,
    body: &[u8],
    command: Command,
    bounds: Bounds,
    decoded: &mut Decoded,
    request: &mut Request,
) -> Result<(), Error> {
    match format {
        Format::Xml => xml::read(body, command, bounds, decoded, request),
        Format::Json => json::read(body, command, bounds, decoded, request),
    }
}

/// Appends the response document of `request`; `line` is scratch.
#[inline]
pub fn write(
    format: Format,
    out: &mut Vec<u8>,
    line: &mut Line,
    request: &Request,
    answers: &Answers,
) {
    match format {
        Format::Xml => xml::write(out, line, request, answers),
        Format::Json => json::write(out, line, request, answers),
    }
}

/// Appends the document of an error of the whole request; `line` is scratch.
pub fn write_error(format: Format, out: &mut Vec<u8>, line: &mut Line, error: &Error) {
    match format {
        Format::Xml => xml::write_error(out, line, error),
        Format::Json => json::write_error(out, line, error),
    }
}
