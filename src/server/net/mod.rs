//! Sockets as workers and the admin plane share them.

pub mod listeners;
pub mod stream;
pub mod timers;
