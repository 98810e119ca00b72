//! The XML format, both directions: a request document to a [`Request`](frs_engine::Request),
//! [`Answers`](frs_engine::Answers) to a response document.
//!
//! Requests are a strict subset of XML 1.0 in UTF-8; that subset is read exactly. Faults are found
//! in the order of the document, and the first one is answered. `bad-xml` means that the body is
//! not well-formed, or has DOCTYPE or CDATA, which frs rejects. `bad-request` means well-formed XML
//! that is not a request. Documents are written compactly: no white space between elements, one
//! line end at the end.

mod fault;
mod markup;
mod read;
mod value;
mod write;

pub use read::read;
pub use value::is_char;
pub use value::replace_forbidden;
pub use write::{Xml, write_escaped};

#[cfg(test)]
mod tests;
