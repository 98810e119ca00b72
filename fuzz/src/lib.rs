//! What each fuzz target does with an input. Hostile inputs are refused or answered: they never
//! panic, hang, or change what they do not own.
//!
//! The targets in fuzz_targets/ call these functions with ever new inputs; tests/it/corpus.rs calls
//! them with those that are kept in tests/corpus.

pub mod conf;
pub mod http;
pub mod image;
pub mod json;
pub mod undo;
mod world;
pub mod xml;

/// A target: its name, which is also that of its directory in tests/corpus, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 6] = [
    ("conf", conf::run),
    ("http", http::run),
    ("image", image::run),
    ("json", json::run),
    ("undo", undo::run),
    ("xml", xml::run),
];
