//! The work of each fuzz target. Hostile inputs are refused or answered. They never panic, hang, or
//! change data that is not theirs.
//!
//! The targets in fuzz_targets/ call these functions with new inputs. tests/it/corpus.rs calls them
//! with the inputs of the archives in tests/corpus.

pub mod checkpoint;
pub mod conf;
pub mod http;
pub mod image;
pub mod json;
pub mod mirror_frame;
pub mod resp;
mod talk;
pub mod tls_handshake;
pub mod token;
pub mod undo;
mod world;
pub mod xml;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also the name of its archive in tests/corpus.
    pub name: &'static str,
    /// Runs one input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 11] = [
    Target { name: "checkpoint", run: checkpoint::run },
    Target { name: "conf", run: conf::run },
    Target { name: "http", run: http::run },
    Target { name: "image", run: image::run },
    Target { name: "json", run: json::run },
    Target { name: "mirror_frame", run: mirror_frame::run },
    Target { name: "resp", run: resp::run },
    Target { name: "tls_handshake", run: tls_handshake::run },
    Target { name: "token", run: token::run },
    Target { name: "undo", run: undo::run },
    Target { name: "xml", run: xml::run },
];
