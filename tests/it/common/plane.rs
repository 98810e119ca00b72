//! A server with an admin plane over TCP, and questions to one on a unix socket.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use super::address::Reserved;
use super::{Answer, BOUND, Client, Server, Settings, Setup, wait_until};

/// The token of the admin plane.
pub const TOKEN: &str = "a-token-of-the-tests-0123456789";

/// All that a unix socket answers to a request before it closes.
pub fn ask_socket(path: impl AsRef<Path>, request: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(BOUND))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A server with an admin plane on an address that no other test gets.
pub struct Plane {
    pub setup: Setup,
    pub address: SocketAddr,
    _reserved: Reserved,
}

impl Plane {
    pub fn new(workers: u16) -> Plane {
        let reserved = Reserved::new();
        let setup = Setup::new(&Settings::default());
        let plane = Plane { setup, address: reserved.address, _reserved: reserved };
        plane.write_srv(workers, "token-file=\"conf/token\"");
        super::files::write_secret(&plane.setup.path("conf/token"), format!("{TOKEN}\n"));
        plane
    }

    pub fn write_srv(&self, workers: u16, token: &str) {
        let more = format!("<admin listen=\"{}\" {token}/>", self.address);
        self.setup.write_srv(&Settings { workers, more, ..Settings::default() });
    }

    pub fn start(&self, workers: usize) -> Server<'_> {
        let server = self.setup.start();
        server.wait_for_workers(workers);
        wait_until("the admin plane serves", || {
            let mut client = Client::try_connect(self.address)?;
            ask(&mut client, "GET", "/health", "", "").ok().filter(|answer| answer.status == 200)
        });
        server
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends a request with the token.
    pub fn ask(&self, method: &str, target: &str, body: &str) -> Answer {
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        ask(&mut self.client(), method, target, &bearer, body).expect("an answer")
    }

    pub fn get(&self, target: &str) -> Answer {
        ask(&mut self.client(), "GET", target, "", "").expect("an answer")
    }

    /// The JSON of a GET, whose status must be 200.
    #[track_caller]
    pub fn json(&self, target: &str) -> Value {
        let accept = "Accept: application/json\r\n";
        let answer = ask(&mut self.client(), "GET", target, accept, "").expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).expect("JSON")
    }

    /// The value of a sample of the metrics, if the metrics have the sample.
    pub fn metric(&self, sample: &str) -> Option<u64> {
        let page = self.get("/metrics").body;
        let value = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap_or_else(|_| panic!("{sample}: {value}")))
    }

    /// Begins a move of the group to nodes of 192 bytes, and stops the master before it can end the
    /// move. All nodes move, but no process learns of that until the caller continues the master.
    pub fn begin_move(&self, server: &Server<'_>) {
        let keeper = server.attached("keeper")[0];
        kill(keeper, Signal::SIGSTOP).expect("stopped");
        let wider = self.map().replace("node-size=\"128\"", "node-size=\"192\"");
        self.setup.write_map(&wider);
        self.setup.frs(&["reload"]);
        server.signal(Signal::SIGSTOP);
        kill(keeper, Signal::SIGCONT).expect("continued");
    }

    pub fn map(&self) -> String {
        std::fs::read_to_string(self.setup.path("conf/map.xml")).expect("readable")
    }
}

/// Sends a request over a connection.
pub fn ask(
    client: &mut Client,
    method: &str,
    target: &str,
    fields: &str,
    body: &str,
) -> std::io::Result<Answer> {
    let length = body.len();
    let length =
        if body.is_empty() { String::new() } else { format!("Content-Length: {length}\r\n") };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}{length}\r\n");
    client.stream.write_all(head.as_bytes())?;
    client.stream.write_all(body.as_bytes())?;
    client.try_answer()
}
