//! The admin plane shows and changes the limits while the server runs. The same thread serves
//! metrics to other machines.
//!
//! The plane is a thread of the keeper's process with its own attachment. So a disk that hangs in a
//! flush delays no answer, and an answer delays no flush or recovery. The master publishes the
//! plane's changes of the configuration. The plane changes records itself, by transactions.
//!
//! | file | duty |
//! | --- | --- |
//! | [`plane_thread`] | starts, wakes and ends the thread |
//! | `accept` | the listeners of the plane and of metrics, and new clients |
//! | `client` | one client: its socket and its stage |
//! | [`keeper_pulse`] | the keeper's flush in progress |
//! | [`access`] | which clients may make which requests |
//! | [`client_eviction`] | chooses the client that must leave |
//! | [`recording`] | the history in the data directory |
//! | [`log_ration`] | bounds log lines that clients can cause |
//! | [`route`] | method and target to a route |
//! | [`connection`] | bytes in, a request out; an answer in, bytes out |
//! | [`response`] | answers and refusals |
//! | [`health`] | the server's health |
//! | [`page`] | the dashboard |
//! | [`change_queue`] | changes of the configuration, one at a time |
//! | [`map_file`] | map.xml on disk |
//! | [`change_entry`] | changes as entries of the log of changes |
//! | [`map_edit`] | map.xml as text: puts or removes a business |
//! | `growth` | the groups that a changed map moves, and the node-size that a business needs |
//! | [`map_json`] | map.xml in JSON, both directions |
//! | [`inspections`] | inspections of the files and long histories, in a thread of their own |
//! | [`handler`] | answers to requests |
//! | [`server`] | the loop: sockets and time |

mod accept;
pub mod access;
pub mod change_entry;
pub mod change_queue;
mod client;
pub mod client_eviction;
pub mod connection;
mod growth;
pub mod handler;
pub mod health;
pub mod inspections;
pub mod keeper_pulse;
pub mod log_ration;
pub mod map_edit;
pub mod map_file;
pub mod map_json;
pub mod page;
pub mod plane_thread;
pub mod recording;
pub mod response;
pub mod route;
pub mod server;

pub use accept::PlaneListeners;
pub use handler::{AdminArgs, AdminError};
pub use keeper_pulse::Pulse;
pub use plane_thread::AdminPlane;
