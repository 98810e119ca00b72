//! What it costs to ask who asks: a server without `<clients>` beside one that knows the client by
//! its token. Both get the same bytes, the token among them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::load::{Protocol, Requests, pass};
use crate::pairs::{self, Case};
use crate::servers::{Frs, ONE_BIZ, Server};
use crate::{KEYS, Options, Result};

const TOKEN: &str = "bench-0123456789abcdef0123456789abcdef";

/// Runs all rounds, and prints a table for each case.
pub fn run(options: &Options) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("token");
    fs::write(&file, TOKEN)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let clients = format!(
        "<clients><client name=\"bench\" token-file=\"{}\" may=\"update\" biz=\"*\"/></clients>",
        file.display()
    );
    let field = format!("Authorization: Bearer {TOKEN}");
    let updates = |items| Requests::updates(items, KEYS).with_field(&field);
    let cases = [
        Case::pipelined("16 Updates in a pipeline", updates(1), Protocol::Http),
        Case::in_turn("one Update a round trip", updates(1), Protocol::Http),
        Case::in_turn("64 Updates in a request", updates(64), Protocol::Http),
    ];
    // Creates every key.
    let first = updates(64);
    pairs::run(options, "clients", ["no clients", "token"], &cases, || {
        let servers = [Frs::start(ONE_BIZ)?, Frs::start_with(ONE_BIZ, &clients)?];
        for server in &servers {
            pass(server.address(), &first)?;
        }
        Ok(servers)
    })
}
