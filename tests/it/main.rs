//! The tests of the whole: the real programs on real sockets and files, the limits by their cases,
//! and what the repository ships.
//!
//! All of them are one program, so each works in a directory and on addresses of its own, and none
//! changes what the process has once: its working directory, environment, limits and signals.

mod admin;
mod common;
mod corpus;
mod dashboard;
mod docs;
mod exact;
mod examples;
mod files;
mod gateways;
mod http;
mod inspect;
mod library;
mod life;
mod limits;
mod load;
mod process;
mod shipped;
mod tidy;
