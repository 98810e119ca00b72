//! Combines both files, as they were read, into one checked configuration, all or nothing.
//!
//! Invariant: the parts of a checked configuration fit together. Only values without faults are
//! compared, so one mistake is one fault. The texts stay with the configuration, so others can read
//! the same configuration again.
//!
//! | file | duty |
//! | --- | --- |
//! | `load` | both files, checked as a whole, with their texts |
//! | `fit` | nodes and states, keys and their types, files, the undo log |
//! | `derive` | the geometry that map.xml leaves to frs |
//! | `kept_files` | files that stay although map.xml derives other numbers |
//! | `named_bizs` | the bizs of map.xml that srv.xml names |
//! | `clustered` | the parts of map.xml that need a cluster or peers |

mod clustered;
mod derive;
mod fit;
mod kept_files;
mod load;
mod named_bizs;

pub(super) use fit::{NodeFrame, needs, node_bytes};
pub use kept_files::{KeptFiles, LiveGeometry};
pub use load::{LoadedConf, Texts};
