//! The integration tests: the real programs on real sockets and files, the limits by their cases,
//! and the shipped files of the repository.
//!
//! All of them are one program. So each test uses its own directory and addresses, and no test
//! changes state that a process has only once: working directory, environment, limits and signals.

mod access;
mod admin;
mod cluster;
mod common;
mod corpus;
mod courier;
mod dashboard;
mod days;
mod docs;
mod exact;
mod examples;
mod faces;
mod files;
mod gateways;
mod http;
mod inspect;
mod lease;
mod library;
mod life;
mod limits;
mod load;
mod mirror;
mod node;
mod openapi;
mod power_cut;
mod process;
mod python;
mod registers;
mod resp;
mod rls;
mod ruby;
mod shipped;
mod snippets;
mod storm;
mod tidy;
mod tls;

// The tests run the shipped code: a store with crash points orders its accesses differently.
const _: () = assert!(!frs_store::HAS_CRASH_POINTS);
