//! The admin plane: what is limited can be looked at and changed while the server runs.
//!
//! It is a thread of the keeper's process with an attachment of its own, so that a disk that hangs
//! in a flush delays no answer, and no answer a flush or a recovery. What it changes in the
//! configuration it has the master put in force; records it changes itself, by transactions.
//!
//! | file | duty |
//! | --- | --- |
//! | [`plane`] | the thread: started, woken, ended |
//! | `accept` | its listener, and who comes |
//! | `client` | one client: its socket, and what it is at |
//! | [`pulse`] | what the keeper is at |
//! | [`access`] | who may ask for what |
//! | [`brake`] | wrong tokens |
//! | [`client_eviction`] | who makes room for others |
//! | [`ration`] | log lines that clients can cause |
//! | [`route`] | method and target to what is asked |
//! | [`connection`] | bytes in, a request out; an answer in, bytes out |
//! | [`response`] | answers and refusals |
//! | [`health`] | is the server well |
//! | [`page`] | the dashboard |
//! | [`map_changes`] | changes of the configuration, one after the other |
//! | [`files`] | map.xml on the disk |
//! | [`map_edit`] | map.xml as text: a business is put or removed |
//! | [`inspections`] | looking into the group files, on a thread of its own |
//! | [`handler`] | what requests are answered with |
//! | [`server`] | sockets and time |
//! | [`error`] | why the plane does not start |

mod accept;
pub mod access;
pub mod brake;
pub mod change_queue;
mod client;
pub mod client_eviction;
pub mod connection;
pub mod error;
pub mod files;
pub mod handler;
pub mod health;
pub mod inspections;
pub mod map_edit;
pub mod page;
pub mod plane;
pub mod pulse;
pub mod ration;
pub mod response;
pub mod route;
pub mod server;

pub use error::AdminError;
pub use plane::{Admin, AdminArgs};
pub use pulse::Pulse;
