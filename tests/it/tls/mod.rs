//! TLS on every listener: handshakes, resumption, renewal, refusals in words, programs of others,
//! and what hostile clients can do.

mod bounds;
mod clients;
mod edge;
mod listeners;
mod programs;
mod rls;
mod sessions;
mod stage;
