//! Sockets, as workers and the admin plane use them.

pub mod face;
pub mod listeners;
mod port_holder;
pub mod stream;
pub mod timers;
