//! The documents match reality.

mod cluster;
mod readme;
