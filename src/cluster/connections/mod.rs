//! How the courier talks to the cluster: a thread for each master, one that reads the topology, and
//! one that listens to the channels.
//!
//! Contract: [`Links`] never blocks its owner. Each [`Message`] is answered once, within a few
//! timeouts. Each thread turns what it receives into an [`Event`], and wakes the owner.
//!
//! Invariant: the number of waiting messages is bounded. A message beyond the bound is answered at
//! once.

// A list of slot ranges often has one range.
#![allow(clippy::single_range_in_vec_init)]

mod backoff;
mod channels;
mod fault;
mod functions;
mod info;
mod job;
mod link_events;
mod link_thread;
mod links;
mod message_counts;
mod reply;
mod resolve;
mod scout;
mod slot_map;
mod stream;
mod task;
mod thread_reports;
mod topology;
mod wire;

pub use fault::ClusterFault;
pub use link_events::{Event, Id, Lost, Message, Wake};
pub use links::Links;
pub use message_counts::{Counted, MessageCounts, function_of_call, function_of_kind};
