//! Supervision.
pub mod account;
pub mod listeners;
pub mod lock;
pub mod message;
pub mod outcome;
pub mod supervise;
