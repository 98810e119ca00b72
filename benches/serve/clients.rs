//! What it costs to ask who asks: a server without `<clients>` beside one that knows the client by
//! its token. Both get the same bytes, the token among them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use crate::load::{Protocol, Requests, pass};
use crate::pairs::{self, Case};
use crate::servers::{Frs, ONE_BIZ, Server};
use crate::{KEYS, Options, Result};

const TOKEN: &str = "bench-0123456789abcdef0123456789abcdef";

/// A client with a token.
pub struct BenchClient {
    /// The `<clients>` of srv.xml that knows it.
    pub element: String,
    _directory: TempDir,
}

impl BenchClient {
    /// A client that may charge uses of these businesses.
    pub fn new(bizs: &str) -> Result<BenchClient> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("token");
        fs::write(&file, TOKEN)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        let element = format!(
            "<clients><client name=\"bench\" token-file=\"{}\" may=\"update\" biz=\"{bizs}\"/>\
             </clients>",
            file.display()
        );
        Ok(BenchClient { element, _directory: directory })
    }
}

/// The same requests with the token of a [`BenchClient`].
pub fn with_token(requests: Requests) -> Requests {
    requests.with_field(&format!("Authorization: Bearer {TOKEN}"))
}

/// Runs all rounds, and prints a table for each case.
pub fn run(options: &Options) -> Result<()> {
    let client = BenchClient::new("*")?;
    let updates = |items| with_token(Requests::updates(items, KEYS));
    let cases = [
        Case::pipelined("16 Updates in a pipeline", updates(1), Protocol::Http),
        Case::in_turn("one Update a round trip", updates(1), Protocol::Http),
        Case::in_turn("64 Updates in a request", updates(64), Protocol::Http),
    ];
    // Creates every key.
    let first = updates(64);
    pairs::run(options, "clients", ["no clients", "token"], &cases, || {
        let servers = [Frs::start(ONE_BIZ)?, Frs::start_with(ONE_BIZ, &client.element)?];
        for server in &servers {
            pass(server.address(), &first)?;
        }
        Ok(servers)
    })
}
