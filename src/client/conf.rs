//! Configuration: srv.xml and map.xml, read once and checked as a whole. All faults are reported at
//! once.
//!
//! [`Conf::load`] checks the two files of a directory as `frs check` does:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use frs::conf::Conf;
//!
//! match Conf::load(Path::new("conf")) {
//!     Ok(_) => println!("ok"),
//!     Err(faults) => faults.iter().for_each(|fault| println!("{fault}")),
//! }
//! ```
//!
//! Relative paths in the files are relative to the reader's working directory.

#[doc(inline)]
pub use frs_conf::{
    Conf, Fault, Faults, Geometry, HashKind, OtherSetting, Position, Scope, SourceLine,
};
