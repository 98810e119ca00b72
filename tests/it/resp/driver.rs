//! A Redis client in another language, driven by the test: a program in the folder of drivers obeys
//! orders, one line of JSON each, and answers with the client's results.
//!
//! Invariant: a driver asserts nothing. The expectations are written in Rust once, for all clients.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::common::needs;

/// A client that may be installed on this machine.
pub struct Kind {
    /// The program that runs the driver.
    pub program: &'static str,
    /// The driver's file, in the folder of drivers.
    pub script: &'static str,
    /// The versions of the protocol that the client can speak.
    pub protocols: &'static [u8],
    /// Whether the client returns a map of RESP3 as a map. Others return the flat list of RESP2.
    pub gives_maps: bool,
    /// The class of the client's error for a refusal of the server.
    pub refusal: &'static str,
}

/// The class of an error and its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub class: String,
    pub text: String,
}

pub type Reply = Result<Value, Refusal>;

/// A program that finds the clients installed by `.ci/run`, and those of the machine.
pub fn with_clients(program: &str) -> Command {
    let mut command = Command::new(program);
    if let Some(clients) = std::env::var_os("FRS_REDIS_CLIENTS").map(PathBuf::from) {
        command.env("PYTHONPATH", clients.join("python"));
        command.env("NODE_PATH", clients.join("node/node_modules"));
    }
    // Python would write bytecode beside the sources.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// A running driver. Dropping it ends it.
pub struct Driver {
    pub kind: &'static Kind,
    /// The version of the protocol of the connection.
    pub protocol: u8,
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Driver {
    /// `None` if the program or the client is not installed.
    #[track_caller]
    pub fn start(kind: &'static Kind) -> Option<Driver> {
        let drivers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/resp/drivers");
        let mut command = with_clients(kind.program);
        command.arg(Path::new(drivers).join(kind.script));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = needs::spawn(&mut command)?;
        let orders = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut driver = Driver { kind, protocol: 0, child, orders, answers };
        let first = driver.line();
        if let Some(missing) = first.get("missing").and_then(Value::as_str) {
            needs::skip(&format!("{}: {missing}", kind.script));
            return None;
        }
        Some(driver)
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("read");
        let script = self.kind.script;
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{script} said {line:?}, expected JSON: {error}"))
    }

    #[track_caller]
    fn answer(&mut self) -> Reply {
        let line = self.line();
        reply(&line)
    }

    fn order(&mut self, order: &Value) {
        writeln!(self.orders, "{order}").expect("the driver listens");
    }

    /// Connects, and closes the connection before.
    #[track_caller]
    pub fn connect(&mut self, address: SocketAddr, protocol: u8, password: Option<&str>) -> Reply {
        self.protocol = protocol;
        let port = address.port();
        self.order(&json!({
            "do": "connect", "port": port, "protocol": protocol, "password": password
        }));
        self.answer()
    }

    /// Sends a command. Blanks separate its words.
    #[track_caller]
    pub fn try_ask(&mut self, command: &str) -> Reply {
        self.order(&json!({ "do": "ask", "args": words(command) }));
        self.answer()
    }

    #[track_caller]
    pub fn ask(&mut self, command: &str) -> Value {
        self.try_ask(command).unwrap_or_else(|error| panic!("{command}: {error:?}"))
    }

    /// The text of a refusal, whose error must be of the client's class.
    #[track_caller]
    pub fn refused(&mut self, command: &str) -> String {
        match self.try_ask(command) {
            Err(Refusal { class, text }) if class == self.kind.refusal => text,
            found => panic!("{command}: found {found:?}, expected a {}", self.kind.refusal),
        }
    }

    /// Sends commands in one pipeline, or in a transaction.
    #[track_caller]
    pub fn try_many(
        &mut self,
        commands: &[&str],
        is_transaction: bool,
    ) -> Result<Vec<Reply>, Refusal> {
        let asks: Vec<_> = commands.iter().map(|command| words(command)).collect();
        self.order(&json!({ "do": "many", "asks": asks, "transaction": is_transaction }));
        let replies = self.answer()?;
        Ok(replies.as_array().expect("replies").iter().map(reply).collect())
    }

    /// The results of the client's own functions about the server.
    #[track_caller]
    pub fn own(&mut self) -> Value {
        self.order(&json!({ "do": "own" }));
        self.answer().expect("its own functions")
    }

    /// Sends a command again and again while `act` runs. Returns the number of answers.
    #[track_caller]
    pub fn while_asking(&mut self, command: &str, act: impl FnOnce()) -> u64 {
        self.order(&json!({ "do": "keep", "args": words(command) }));
        assert_eq!(self.answer(), Ok(json!("keeps asking")), "{}", self.kind.script);
        act();
        self.order(&json!({ "do": "stop" }));
        self.answer().expect("it kept asking").as_u64().expect("a number of answers")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

#[track_caller]
fn reply(answer: &Value) -> Reply {
    if let Some(value) = answer.get("ok") {
        return Ok(value.clone());
    }
    let word = |at: usize| answer["error"][at].as_str().map(str::to_owned);
    match (word(0), word(1)) {
        (Some(class), Some(text)) => Err(Refusal { class, text }),
        _ => panic!("found {answer}, expected ok or error"),
    }
}
