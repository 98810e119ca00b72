//! TLS on every listener of the server's own processes: handshakes, resumption, certificates that a
//! reload renews, clients' certificates, and refusals in words.

mod listeners;
mod sessions;
mod stage;
