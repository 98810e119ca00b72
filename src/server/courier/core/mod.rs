//! The heart of the courier: which messages go out when, and what becomes of those that wait.
//!
//! Contract: what happens is given to [`Core`] (wants, answers, what other hosts have published,
//! the time), and [`Core::settle`] then does what follows from it: it changes nodes through
//! [`Nodes`], and says by [`Action`]s what is to be sent, published and finished. No clock and no
//! socket.
//!
//! Invariant: a message is an action only after the node that it binds has been stored (rule 1),
//! and only one is under way for a ledger at a time. All that is remembered is bounded.

mod actions;
mod answers;
mod duties;
mod engine;
mod figures;
mod line;
mod news;
mod nodes;
mod reach;
mod recalls;
mod request;
mod rounds;
mod timers;
mod visit;

pub use actions::{Action, Fate, Outcome};
pub use engine::{Bounds, Core};
pub use figures::Figures;
pub use news::{News, NewsKind};
pub use nodes::{Leased, LedgerId, Nodes, Now, Unserved};
pub use request::{Asked, Group};
