//! What the documents show is what happens.

mod readme;
