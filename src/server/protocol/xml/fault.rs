//! A fault of a document.
//!
//! Invariant: a fault knows its byte. Line and column are counted when it is answered.

use crate::protocol::{Error, Excerpt, TextPosition};

/// A fault, and the byte where it is.
#[derive(Debug, Clone, Copy)]
pub enum XmlFault {
    /// Not well-formed, or XML that frs rejects.
    Xml { what: &'static str, found: Excerpt, at: usize },
    /// Not a request.
    Document { what: &'static str, found: Excerpt, at: usize },
    /// Over a bound, or not readable at all.
    Whole(Error),
}

impl XmlFault {
    pub fn xml(what: &'static str, at: usize) -> XmlFault {
        XmlFault::Xml { what, found: Excerpt::NONE, at }
    }

    pub fn found_xml(what: &'static str, found: &str, at: usize) -> XmlFault {
        XmlFault::Xml { what, found: Excerpt::of(found), at }
    }

    pub fn document(what: &'static str, found: &str, at: usize) -> XmlFault {
        XmlFault::Document { what, found: Excerpt::of(found), at }
    }

    /// The error to answer, with the fault's position in `text`.
    pub fn into_error(self, text: &[u8]) -> Error {
        match self {
            XmlFault::Xml { what, found, at } => {
                Error::BadXml { what, found, position: TextPosition::of(text, at) }
            }
            XmlFault::Document { what, found, at } => {
                Error::BadDocument { what, found, position: TextPosition::of(text, at) }
            }
            XmlFault::Whole(error) => error,
        }
    }
}
