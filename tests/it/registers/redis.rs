//! A real redis-server beside the server under test.
//!
//! Invariant: it keeps nothing, and ends with its owner.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::wire::Wire;
use crate::common::{needs, wait_until};

/// A redis-server on a socket of its own.
pub struct Redis {
    child: Child,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Redis {
    /// `None` if it is not installed.
    #[track_caller]
    pub fn start() -> Option<Redis> {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--dir"]).arg(dir.path());
        command.arg("--unixsocket").arg(&socket);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let redis = Redis { child: needs::spawn(&mut command)?, socket, _dir: dir };
        redis.connect();
        Some(redis)
    }

    pub fn connect(&self) -> Wire {
        wait_until("redis-server listens", || Wire::connect_unix(&self.socket).ok())
    }

    /// The address, as libraries take it.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
