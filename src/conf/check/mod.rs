//! Makes one checked configuration of what was read: both files, all or nothing.
//!
//! Invariant: what must fit together does. Only values without faults are compared, so one mistake
//! is one fault. The texts stay with the configuration, so others can read the same again.
//!
//! | file | duty |
//! | --- | --- |
//! | `load` | both files, checked as a whole, with their texts |
//! | `fit` | nodes and states, keys and their types, files, the undo log |
//! | `derive` | the geometry that map.xml leaves to frs |
//! | `kept` | files that stay where map.xml derives other numbers |
//! | `named_bizs` | the bizs of map.xml that srv.xml names |
//! | `clustered` | what map.xml says of the cluster that srv.xml names, or not |

mod clustered;
mod derive;
mod fit;
mod kept;
mod load;
mod named_bizs;

pub(super) use fit::{needs, node_bytes};
pub use kept::{Kept, LiveGeometry};
pub use load::{LoadedConf, Texts};
