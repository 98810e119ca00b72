//! What the server tells of itself: figures of all processes, and the forms in which they are told.

pub mod history;
pub mod hottest;
pub mod metrics;
pub mod snapshot;
pub mod stats_document;
