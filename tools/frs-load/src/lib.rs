//! Load for servers, from one loop: the program frs-load, which checks every answer, and
//! [`prepared`] requests, with which benches measure.
//!
//! Invariant: whatever is sent, requests leave and latencies count by the rules of one loop and one
//! schedule, so figures of the program and of the benches mean the same.

mod answer;
mod arguments;
mod call;
mod checked;
mod connection;
mod failure;
mod http_request;
mod keys;
mod load;
mod plot;
pub mod prepared;
mod program;
mod request;
mod resp_request;
mod ring;
mod routing;
mod schedule;
mod stamp;
mod summary;
mod tally;
mod target;
mod windows;

pub use keys::Keys;
pub use program::main;
