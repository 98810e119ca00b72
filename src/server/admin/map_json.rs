//! The businesses of map.xml in JSON, both directions.
//!
//! Invariant: JSON says what the XML says, by the rules of all documents of the admin plane. An
//! attribute is a member of its name, and children are in an array that is named like the element
//! plus `s`. What is read is one `<biz>` as text, which then takes the way of a `<biz>` that came
//! as XML, so both are checked alike.

mod read;
mod shape;
mod write;

pub use read::{HELD_BYTES, biz_as_xml};
#[cfg(any(test, feature = "testing"))]
pub use shape::ALL;
pub use shape::{BIZ, GROUP, Kind, LIMIT, LISTED, MAP, OVERRIDE, Shape, WEIGHT};
pub use write::document;

#[cfg(test)]
mod tests;
