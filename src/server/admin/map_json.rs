//! The businesses of map.xml in JSON, in both directions.
//!
//! Invariant: JSON has the content of the XML, by the rules of all documents of the admin plane. An
//! attribute is a member of its name. Children are in an array named like the element plus `s`. A
//! business in JSON becomes the text of a `<biz>`, which is then checked like a `<biz>` that came
//! as XML.

mod read;
mod shape;
mod write;

pub use read::{HELD_BYTES, biz_as_xml};
#[cfg(any(test, feature = "testing"))]
pub use shape::ALL;
pub use shape::{AttributeKind, BIZ, GROUP, JsonShape, LIMIT, LISTED, MAP, OVERRIDE, WEIGHT};
pub use write::document;

#[cfg(test)]
mod tests;
