//! The files of a data directory: their words, their names, their maps, and their way to the disk.
//!
//! Contract: a file is served only if its length and every field of its header are correct. Only
//! `region` does pointer arithmetic on mapped words.
//!
//! | file | duty |
//! | --- | --- |
//! | `layout` | the byte map of every file |
//! | `region` | a mapped file as words; the only unsafe code of the store |
//! | `map` | maps a part of a file where the kernel can use huge pages |
//! | `words` | drafts, headers as words, durable renames |
//! | `set` | the names of a group's files |
//! | `group` | a group: creates, opens and checks its files, finds a key-node in them |
//! | `version` | which of two copies of a record is the later one |
//! | `owner` | who owns a file, and who may read it |
//! | `access` | gives files the mode and the group that srv.xml names |
//! | `live` | the geometry of the files that a configuration finds |
//! | `flush` | flushes the groups on disk, part by part |
//! | `write_back` | writes files back, and a whole file again after an error |

pub mod layout;
pub mod region;

#[cfg(not(loom))]
pub(crate) mod access;
#[cfg(not(loom))]
pub(crate) mod flush;
#[cfg(not(loom))]
pub mod group;
#[cfg(not(loom))]
pub(crate) mod live;
#[cfg(not(loom))]
pub(crate) mod map;
#[cfg(not(loom))]
pub(crate) mod owner;
#[cfg(not(loom))]
pub(crate) mod set;
#[cfg(not(loom))]
pub mod version;
#[cfg(not(loom))]
pub(crate) mod words;
#[cfg(not(loom))]
pub(crate) mod write_back;

#[cfg(not(loom))]
pub use {
    access::{give_access, give_access_to_generation, give_access_to_history},
    flush::Flush,
    group::Group,
    live::{live_geometry, settled},
    set::path_of,
    version::Version,
    words::{FileFacts, FilePlace},
};
