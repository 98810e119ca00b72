//! The faces: bytes of a connection to a [`Request`](frs::service::Request), and
//! [`Answers`](frs::service::Answers) to bytes.
//!
//! Contract: everything here is sans-io, values in and values out. Whatever bytes come in, the
//! outcome is a value or an [`Error`]; nothing panics, nothing is read past a bound, and reading a
//! well-formed request and writing its answer allocates nothing once the buffers have grown (but
//! for JSON strings with escapes, which cost their parser a buffer for each document).
//!
//! | file | duty |
//! | --- | --- |
//! | [`http`] | a request's head: where it ends, what it says, how its body is framed |
//! | [`chunked`] | the chunked transfer coding of a body |
//! | [`route`] | method and target to what is asked |
//! | [`form`] | the parameters of a GET |
//! | [`authz`] | the key of an /authz request |
//! | [`call`] | what requests and answers are counted as |
//! | [`accept_header`] | which format the client would rather have |
//! | [`mod@format`] | what the formats share |
//! | [`xml`] | the XML format, both directions |
//! | [`json`] | the JSON format, both directions |
//! | [`codec`] | a document in whichever of them |
//! | [`element`] | a tree of elements, written as XML or as JSON |
//! | [`response_head`] | status lines, header fields, answers of the whole request |
//! | [`error`] | what can be wrong with a whole request |
//! | [`visible`] | characters that nobody sees, shown by number |

pub mod accept_header;
pub mod authz;
pub mod call;
pub mod chunked;
pub mod codec;
pub mod element;
pub mod error;
pub mod form;
pub mod format;
pub mod json;
mod line;
pub mod request_head;
pub mod response_head;
pub mod route;
pub mod visible;
pub mod xml;

pub use error::{Error, Excerpt, TextPosition};
pub use format::{Bounds, Decoded, Format};
pub use line::Line;
use line::Pen;
