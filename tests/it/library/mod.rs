//! The library beside a real server: clients that outlive the server, the examples, and the
//! package's dependencies.

mod access;
mod c;
mod client;
mod examples;
mod forks;
mod package;
mod signals;

use crate::common::{Settings, Setup};

/// A setup with a long lock-timeout, so that no key-node is busy even on a slow machine.
fn setup_of(map: &str) -> Setup {
    let http = "lock-timeout=\"10s\"".to_owned();
    let setup = Setup::new(&Settings { http, ..Settings::default() });
    setup.write_map(map);
    setup
}
