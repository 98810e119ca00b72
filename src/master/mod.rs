//! Supervision.
pub mod account;
pub mod supervise;
