//! The data plane as its clients see it.

mod clients;
mod errors;
mod named;
