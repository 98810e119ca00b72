//! The XML format, both directions: a request document to a
//! [`Request`](frs::service::Request), [`Answers`](frs::service::Answers) to a response
//! document.
//!
//! Read is a strict subset of XML 1.0 in UTF-8, and of that subset everything is taken exactly.
//! Faults are found in the order of the document; the first one is answered. `bad-xml` is what is
//! not well-formed, and DOCTYPE and CDATA, which are not taken; `bad-request` is well-formed XML
//! that says something else than a request. Written are compact documents: no white space between
//! elements, one line end at the end.

mod fault;
mod markup;
mod read;
mod value;
mod write;

pub use read::read;
pub(super) use value::is_char;
pub use value::replace_forbidden;
pub use write::{write, write_error, write_escaped};

#[cfg(test)]
mod tests;
