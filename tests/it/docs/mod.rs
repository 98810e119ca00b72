//! The documents match reality.

mod readme;
