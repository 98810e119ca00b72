//! The master: listeners, supervision, reloads, upgrades, and the commands that address it.
//!
//! It forks, reaps and sends messages; it serves no request and maps no group. Its decisions are
//! values in, values out ([`supervise`]); the other files carry them out. It stays a single thread.

mod change_notes;
mod children;
pub mod command;
pub mod conf_trust;
mod conf_watch;
mod control_socket;
mod data_directory;
mod detached;
mod disk_room;
pub mod error;
mod files;
mod forecast;
mod in_force;
mod inherit;
pub mod notify;
pub mod preparing_child;
mod reload_queue;
pub mod reload_rules;
mod run;
mod stale_processes;
mod start;
pub mod supervise;
mod take_over;
mod upgrade;

pub use error::MasterError;
pub use forecast::{Forecast, forecast, restart_needs};
pub use run::Ended;
pub use start::{Start, serve};
