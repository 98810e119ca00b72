//! The server's figures: those of all processes, and the forms in which the server reports them.

pub mod history;
pub mod history_document;
pub mod history_file;
pub mod metrics;
pub mod peers;
pub mod recorder;
pub mod snapshot;
pub mod stats_document;
pub mod swept;
