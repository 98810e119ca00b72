//! What the master and its children share as processes: their messages, what a forked child gets,
//! the tokens that are in force, the locks of a data directory, of live files and of a
//! configuration, the user they run as, the log, and what the program frs-envoy inherits.

pub mod bells;
pub mod change_log;
pub mod child;
pub mod conf_guard;
pub mod data_lock;
pub mod envoy;
pub mod live_lock;
pub mod log;
pub mod lossy_request;
pub mod message;
pub mod pending_edit;
pub mod result_files;
pub mod token_board;
