//! The library beside a real server: clients that outlive it, the examples, what the package
//! brings.

mod client;
mod examples;
mod package;
