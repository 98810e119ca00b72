//! The shared parts of the master and its children: their messages and doorbells, the state that a
//! forked child or the program frs-envoy inherits, the tokens in force, the locks of a data
//! directory, of live files and of a configuration, the logs, the files of requests and results,
//! and the clearing of void records.

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
pub mod void_records;
