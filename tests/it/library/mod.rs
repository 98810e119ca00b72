//! The library beside a real server: clients that outlive it, the examples, and the package's
//! dependencies.

mod access;
mod c;
mod client;
mod examples;
mod forks;
mod package;
mod signals;

use crate::common::{Settings, Setup};

/// A setup with a long lock-timeout: no key-node is busy, however slow the machine is.
fn setup_of(map: &str) -> Setup {
    let http = "lock-timeout=\"10s\"".to_owned();
    let setup = Setup::new(&Settings { http, ..Settings::default() });
    setup.write_map(map);
    setup
}
