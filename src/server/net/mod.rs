//! Sockets, as workers and the admin plane use them.

pub mod face;
pub mod listeners;
pub mod stream;
pub mod timers;
