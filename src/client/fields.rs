//! The fields of a verdict, one by one: for libraries of other languages, and for code that shows
//! whole verdicts.
//!
//! Each field has a name, a kind and a value, the same as in the answers of the server. A field
//! that does not apply has no value.

#[doc(inline)]
pub use frs_engine::answer::{
    Field, FieldKind, FieldValue, FieldVisitor, Judged, JudgedLimit, LimitField,
};
