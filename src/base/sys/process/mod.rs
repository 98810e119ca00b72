//! Processes: children, signals, descriptors, and the channel between master and child.
//!
//! Invariant: a parent's call about its children never waits, unless it says so.

mod channel;
pub(super) mod children;
mod descriptors;
mod pidfd;
mod signals;

pub use channel::{Channel, DESCRIPTORS_MAX, Delivery, MESSAGE_BYTES_MAX};
pub use children::{ChildChange, Exit, Forked, fork, is_ending, next_change, parent_of, wait_for};
pub use descriptors::{adopt, pass_on, poll, raise_file_limit, take_variable};
pub use nix::poll::{PollFd, PollFlags};
pub use nix::sys::signal::Signal;
pub use nix::unistd::Pid;
pub use pidfd::{pidfd_open, pidfd_send_signal};
pub use signals::{Signals, follow_parent, ignore, signal, stop_ignoring};
