//! A fault of a document.
//!
//! Invariant: a fault knows its byte. Line and column are counted when it is answered.

use crate::protocol::{Code, Error, Excerpt, TextPosition};

/// A fault, and the byte where it is.
#[derive(Debug, Clone, Copy)]
pub enum XmlFault {
    /// With the code `BadXml` not well-formed, or XML that frs rejects; else not a request.
    At { code: Code, what: &'static str, found: Excerpt, at: usize },
    /// Over a bound, or not readable at all.
    Whole(Error),
}

impl XmlFault {
    pub fn xml(what: &'static str, at: usize) -> XmlFault {
        XmlFault::At { code: Code::BadXml, what, found: Excerpt::NONE, at }
    }

    pub fn found_xml(what: &'static str, found: &str, at: usize) -> XmlFault {
        XmlFault::At { code: Code::BadXml, what, found: Excerpt::of(found), at }
    }

    pub fn document(what: &'static str, found: &str, at: usize) -> XmlFault {
        XmlFault::At { code: Code::BadRequest, what, found: Excerpt::of(found), at }
    }

    /// The error to answer, with the fault's position in `text`.
    pub fn into_error(self, text: &[u8]) -> Error {
        match self {
            XmlFault::At { code, what, found, at } => {
                Error::BadBody { code, what, found, position: TextPosition::of(text, at) }
            }
            XmlFault::Whole(error) => error,
        }
    }
}
