//! The formats of the network: bytes of a connection to a [`Request`](frs_engine::Request), and
//! [`Answers`](frs_engine::Answers) to bytes.
//!
//! Invariant: everything here is sans-io, values in and values out. For all input the result is a
//! value or an [`Error`]: nothing panics, and nothing is read past a bound. Reading a well-formed
//! request and writing its answer allocates nothing once the buffers have grown (except for JSON
//! strings with escapes: their parser needs a buffer for each document).
//!
//! | file | duty |
//! | --- | --- |
//! | [`request_head`] | a request's head: where it ends, what it says, how its body is framed |
//! | [`chunked`] | the chunked transfer coding of a body |
//! | [`route`] | method and target to the requested operation |
//! | [`form`] | the parameters of a GET |
//! | [`idempotency_key`] | the id of an Update in its head |
//! | [`authz`] | the key of an /authz request |
//! | [`bearer`] | the token of an Authorization field |
//! | [`call`] | the kinds by which requests and answers are counted |
//! | [`accept_header`] | which format the client prefers |
//! | [`mod@format`] | what the formats share |
//! | `document_format` | response and error documents, as XML and JSON write them alike |
//! | [`xml`] | the XML format, both directions |
//! | [`json`] | the JSON format, both directions |
//! | [`codec`] | a document in either format |
//! | [`resp`] | the protocol of Redis, both directions |
//! | [`element_tree`] | a tree of elements, written as XML or as JSON |
//! | [`response_head`] | status lines, header fields, answers of the whole request |
//! | [`error`] | what can be wrong with a whole request |
//! | [`visible`] | invisible characters, shown by number |

pub mod accept_header;
pub mod authz;
pub mod bearer;
pub mod call;
pub mod chunked;
pub mod codec;
mod document_format;
pub mod element_tree;
pub mod error;
mod field_label;
pub mod form;
pub mod format;
pub mod idempotency_key;
pub mod json;
pub mod request_head;
pub mod resp;
pub mod response_head;
pub mod route;
mod short_text;
pub mod visible;
pub mod xml;

pub use error::{Code, Error, Excerpt, TextPosition};
pub use format::{Bounds, Decoded, Format};
pub use short_text::Line;
use short_text::Pen;
