//! The shared parts of the master and its children: their messages and doorbells, requests to the
//! master and their answers, the state that a forked child or the program frs-envoy inherits, the
//! tokens in force, the locks of a data directory, of live files and of a configuration, and the
//! logs.

pub mod bells;
pub mod change_log;
pub mod child;
pub mod conf_guard;
pub mod control;
pub mod control_stream;
pub mod data_lock;
pub mod envoy;
pub mod live_lock;
pub mod log;
pub mod message;
pub mod pending_edit;
pub mod token_board;
