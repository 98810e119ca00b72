//! Sockets of the workers and of the admin plane.

pub mod client_timeouts;
pub mod face;
pub mod listeners;
mod port_holder;
pub mod stream;
