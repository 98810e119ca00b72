//! The library beside a real server: clients that outlive it, the examples, what the package
//! brings.

mod client;
mod examples;
mod package;

use crate::common::{Settings, Setup};

/// With a long lock-timeout: however slow the machine is, nobody is busy.
fn setup_of(map: &str) -> Setup {
    let http = "lock-timeout=\"10s\"".to_owned();
    let setup = Setup::new(&Settings { http, ..Settings::default() });
    setup.write_map(map);
    setup
}
