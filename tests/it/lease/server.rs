//! A real redis-server or valkey-server in a directory of its own, with the ledger's functions.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use frs_cluster::lease::{Settings, Take};
use frs_cluster::ledger::{self, LIBRARY, Reply};
use redis::{Connection, Value, cmd};

use crate::common::BOUND;

/// The slot's key on a server without cluster mode.
pub const SLOT: &str = "frs:{test#0}:slot";

/// A server that is stopped on drop.
pub struct Server {
    child: Child,
    pub connection: Connection,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Starts a server with these arguments. It listens on a socket in its directory.
    pub fn start(program: &str, arguments: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let socket: PathBuf = dir.path().join("socket");
        let fixed = ["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"];
        let mut command = Command::new(program);
        command.args(fixed).arg(dir.path()).arg("--unixsocket").arg(&socket);
        if !arguments.contains(&"--port") {
            command.args(["--port", "0"]);
        }
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the server starts");
        let url = format!("redis+unix://{}", socket.display());
        let client = redis::Client::open(url).expect("a path");
        let began = Instant::now();
        let connection = loop {
            match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => {
                    assert!(began.elapsed() < BOUND, "{program} does not answer: {error}")
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        Server { child, connection, _dir: dir }
    }

    /// Starts a server with the ledger's library.
    pub fn with_library(program: &str, arguments: &[&str]) -> Server {
        let mut server = Server::start(program, arguments);
        server.load(LIBRARY);
        server
    }

    pub fn load(&mut self, library: &str) {
        let name: String = self.ask(cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(library));
        assert_eq!(name, ledger::LIBRARY_NAME);
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn ask<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> T {
        command.query(&mut self.connection).expect("the server answers")
    }

    /// Sends a message to a ledger.
    #[track_caller]
    pub fn take(&mut self, key: &str, settings: &Settings, take: &Take, learn_ms: u64) -> Reply {
        let numbers: Vec<i64> = self.ask(&fcall(key, settings, take, learn_ms));
        ledger::decode(settings, &numbers).expect("an answer of the library")
    }

    /// The server's clock.
    pub fn now_ms(&mut self) -> u64 {
        let [seconds, micros]: [u64; 2] = self.ask(&cmd("TIME"));
        seconds * 1000 + micros / 1000
    }

    /// Waits until the server's clock reaches this time.
    pub fn wait_until_ms(&mut self, at_ms: u64) {
        loop {
            let now_ms = self.now_ms();
            if now_ms >= at_ms {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis((at_ms - now_ms).min(50)));
        }
    }

    /// All fields of a ledger.
    pub fn fields(&mut self, key: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.ask(cmd("HGETALL").arg(key))
    }

    /// Runs a command that must fail, and returns its error.
    #[track_caller]
    pub fn fault(&mut self, command: &redis::Cmd) -> String {
        command.query::<Value>(&mut self.connection).expect_err("a fault").to_string()
    }
}

/// The call of the library that carries a message.
pub fn fcall(key: &str, settings: &Settings, take: &Take, learn_ms: u64) -> redis::Cmd {
    let mut command = cmd("FCALL");
    command.arg(ledger::function(&settings.kind)).arg(1).arg(key);
    command.arg(ledger::arguments(settings, take, learn_ms, SLOT).expect("settings"));
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
