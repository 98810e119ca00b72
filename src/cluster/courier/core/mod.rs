//! The heart of the courier: it decides when each message goes out, and how waiting requests end.
//!
//! Contract: the loop gives all events to [`Core`]: needs, answers, the publications of other
//! hosts, the time. [`Core::settle`] then does what follows: it changes nodes through [`Nodes`],
//! and returns what is to be sent, published and finished as [`Action`]s. It has no clock and no
//! socket.
//!
//! Invariant: a message becomes an action only after the node that it binds has been stored (rule
//! 1). At most one message for a ledger is under way. All memory is bounded.

mod actions;
mod answers;
mod claims;
mod ledger_state;
mod ledger_turn;
mod nodes;
mod recalls;
mod request;
mod reservations;
mod returns;
mod slot_reach;
mod state;
mod timers;

pub use actions::Action;
pub use nodes::{Leased, Nodes, Now};
pub use request::{AskedNeed, AtomicRequest};
pub use state::{Bounds, Core};
