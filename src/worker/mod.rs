//! Workers: the event loop, and the connections it serves.

pub mod connection;
